"""Schema and reader of experiment files (YAML or JSON), which hold everything needed to rerun an
experiment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from limen.attacks.engine.spec import AttackSpec, SpecOfAttack
from limen.core.components import KINDS, load, names, spec_of
from limen.core.errors import UserError
from limen.core.options import Options, parse_options
from limen.core.yaml import read_yaml


class Net(Options):
    """A model and the data it is evaluated on."""

    model: Annotated[dict[str, Any], spec_of("models")]
    """The model: {name: keyword_cnn, ...its options}."""
    data: Annotated[dict[str, Any], spec_of("data")]
    """The data set: {name: spoken_words, limit: 100, ...its options}."""
    label: str | None = None
    """Name in tables and curves; null takes the model's name."""


Defense = Annotated[dict[str, Any], spec_of("defenses")]
Defenses = Annotated[
    list[Defense],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, Mapping) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"component": "defenses"},
                {"type": "array", "items": {"component": "defenses"}, "minItems": 1},
            ]
        }
    ),
]


class TaskEntry(Options):
    """One grid: every net x defence x attack x value of the sweep is a cell."""

    task: Annotated[dict[str, Any], spec_of("tasks")] = Field(default={"name": "accuracy"})
    """What to do in each cell."""
    nets: list[Net] = Field(min_length=1)
    """Models with their data."""
    defenses: list[Defenses | None] = Field(default=[None], min_length=1)
    """Defences of each model, one entry per cell: null (none), a defence {name: jpeg, ...its options}, or a
    list of them, [{name: jpeg}, {name: crop_rescale}], in the order in which they are applied."""
    attacks: list[Annotated[dict[str, Any], SpecOfAttack("attacks")] | None] = Field(
        default=[None], min_length=1
    )
    """Attacks: {name: pgd, goal: {...}, budget: {...}, ...its options}; null is no attack. `label` names it
    in tables; `surrogate: {models: [...]}` computes it on other nets (transfer); `precision: single | double
    | auto` is that of the search (auto: double for recognisers); `through: [{name: room}]` applies random
    transforms (defences) during the search, and `draws: 8` averages its gradients over 8 of their draws
    (success is measured without them)."""
    metrics: list[Annotated[dict[str, Any], spec_of("metrics")]] | None = None
    """Metrics computed for each sample; null takes every one that applies."""
    attack_on_defense: bool = True
    """True: the attack is computed on the model with its defences. False: on the model without them."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Options to vary, by dotted name: {"attack.budget.eps": [0.01, 0.02], "defense.quality": [75, 90]}.
    A defence in a list is chosen by name, "defense.jpeg.quality", or position, "defense.0.quality".
    A cell without the option (no attack, another budget) is run once."""


class Experiment(Options):
    """The whole file."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the run folder; letters, digits, dots, dashes and underscores."""
    description: str = ""
    """What the experiment is for; shown at the top of the report."""
    seed: int = 0
    """One seed for everything drawn at random."""
    batch_size: int = Field(default=64, ge=1)
    """Samples per batch; changes no result."""
    store: Literal["auto", "float", "int16", "uint8"] = "auto"
    """Precision to which adversarial samples are rounded before they are evaluated; auto: 16-bit for clips,
    float for pictures."""
    examples: int = Field(default=3, ge=0)
    """Number of samples of each cell saved as image or audio files."""
    audit: bool = True
    """Check the gradients of each attacked net and defence on a few samples (task audit); the report shows
    the findings."""
    safe_mode: bool = False
    """Record the error of a failed cell and continue with the next cell."""
    tasks: list[TaskEntry] = Field(min_length=1)
    """The grids, one after another."""


def load_file(path: Path) -> dict[str, Any]:
    """The content of the file as plain data."""
    if not path.is_file():
        raise UserError(
            f"There is no experiment file {path}. Examples are in experiments/; `limen schema` shows "
            "the format."
        )
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(
            f"{path} must hold a mapping with `name` and `tasks`, got {type(content).__name__}. See "
            "`limen schema`."
        )
    return content


def read_experiment(content: Mapping[str, Any], path: Path, limit: int | None = None) -> Experiment:
    """The validated experiment; `limit` is the number of samples of every data set."""
    content = {"name": path.stem, **content}
    if limit is not None and isinstance(content.get("tasks"), list):
        content["tasks"] = [_limited(task, limit) for task in content["tasks"]]
    return parse_options(Experiment, content, str(path))


def _limited(task: Any, limit: int) -> Any:
    if not isinstance(task, dict) or not isinstance(task.get("nets"), list):
        return task  # validation reports what is wrong with it
    with_limit = lambda net: {**net, "data": {**net["data"], "limit": limit}}
    return {
        **task,
        "nets": [
            with_limit(n) if isinstance(n, dict) and isinstance(n.get("data"), dict) else n
            for n in task["nets"]
        ],
    }


def schema() -> dict[str, Any]:
    """JSON schema of an experiment file, with every component and its options."""
    root = Experiment.model_json_schema()
    shared = AttackSpec.model_json_schema()
    definitions = root.setdefault("$defs", {}) | shared["$defs"]
    for kind in (name for name, one in KINDS.items() if one.used_in == "experiment"):
        choices = []
        for name in names(kind):
            one = load(kind, name).options.model_json_schema()
            definitions.update(one.pop("$defs", {}))
            one["properties"] = {"name": {"const": name}, **one.get("properties", {})}
            if kind == "attacks":
                one["properties"] |= shared["properties"]
            one["required"] = ["name", *one.get("required", [])]
            choices.append(one)
        definitions[kind] = {"oneOf": choices}
    root["$defs"] = definitions
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_linked(root)}


def _linked(node: Any) -> Any:
    """The schema in which options that name a component refer to the components of their kind."""
    if isinstance(node, list):
        return [_linked(one) for one in node]
    if not isinstance(node, dict):
        return node
    if isinstance(kind := node.get("component"), str):
        about = {key: node[key] for key in ("title", "description", "default") if key in node}
        return {"$ref": f"#/$defs/{kind}", **about}
    return {key: _linked(value) for key, value in node.items()}
