"""An experiment file is data: names and numbers, YAML or JSON, complete enough to rerun. This is its schema
and its reader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from limen.attacks.engine.precision import Precision
from limen.attacks.engine.run import Attack
from limen.core.components import KINDS, load, names, spec_of
from limen.core.errors import UserError
from limen.core.options import Options, parse_options
from limen.core.yaml import read_yaml


class Net(Options):
    """A model and the data it is judged on."""

    model: Annotated[dict[str, Any], spec_of("models")]
    """The model: {name: keyword_cnn, ...its options}."""
    data: Annotated[dict[str, Any], spec_of("data")]
    """The data set: {name: spoken_words, limit: 100, ...its options}."""
    label: str | None = None
    """What tables and curves call it; null takes the model's name."""


class Surrogate(Options):
    """Other nets that the attack is computed on (transfer)."""

    models: list[Annotated[dict[str, Any], spec_of("models")]] = Field(min_length=1)
    """The proxies; the losses of several add up, and all must be fooled."""
    label: str | None = None
    """What tables and curves call them; null takes the names of the models."""
    dropout: bool = False
    """Dropout stays on in the proxies, so the attack overfits them less."""
    stop: Annotated[dict[str, Any], spec_of("models")] | None = None
    """A third model that looks on during the search: the point it finds best is taken."""
    stop_every: int = Field(default=1, ge=1)
    """Gradients between two looks of the third model."""


class Beside(Options):
    """What stands in an attack's spec beside what the attack takes."""

    label: str | None = None
    """What tables and curves call it; null takes its name."""
    surrogate: Surrogate | None = None
    """Other nets that it is computed on."""


def checked_attack(spec: Any) -> Beside:
    """What stands beside the attack in its spec; a UserError if anything in the spec is wrong."""
    beside = (
        {key: spec[key] for key in Beside.model_fields if key in spec} if isinstance(spec, Mapping) else {}
    )
    attack = Attack.parse({k: v for k, v in spec.items() if k not in beside} if beside else spec)
    return parse_options(Beside, beside, f"attack {attack.search.name}")


def _attack(value: dict[str, Any]) -> dict[str, Any]:
    try:
        checked_attack(value)
    except UserError as error:
        raise ValueError(str(error)) from None
    return value


AttackSpec = Annotated[dict[str, Any], AfterValidator(_attack)]


Defense = Annotated[dict[str, Any], spec_of("defenses")]
Defenses = Annotated[
    list[Defense],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, Mapping) else value),
]


class TaskEntry(Options):
    """One grid: every net x defence x attack x value of the sweep is a cell."""

    task: Annotated[dict[str, Any], spec_of("tasks")] = Field(default={"name": "accuracy"})
    """What to do in each cell."""
    nets: list[Net] = Field(min_length=1)
    """Models with their data."""
    defenses: list[Defenses | None] = Field(default=[None], min_length=1)
    """Defences of each model, one entry per cell: null (none), a defence {name: jpeg, ...its options}, or a
    list of them, [{name: jpeg}, {name: crop_rescale}], in the order in which a sample meets them."""
    attacks: list[AttackSpec | None] = Field(default=[None], min_length=1)
    """Attacks: {name: pgd, goal: {...}, budget: {...}, ...its options}; null is no attack. `label` names it;
    `surrogate: {models: [...]}` computes it on other nets (transfer); `precision: single | double | auto` is
    that of the search (auto: double for recognisers); `through: [{name: room}]` lets it search behind random
    transforms, names of defences, and `draws: 8` average that many of their draws (success is judged without
    them)."""
    metrics: list[Annotated[dict[str, Any], spec_of("metrics")]] | None = None
    """Metrics of each sample; null takes every one that applies."""
    attack_on_defense: bool = True
    """True: the attacker sees the defence and differentiates it. False: it only knows the bare model."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Options to vary, by dotted name: {"attack.budget.eps": [0.01, 0.02], "defense.quality": [75, 90]}.
    Of several defences one is chosen by its name, "defense.jpeg.quality", or position, "defense.0.quality".
    Where an option does not exist (no attack, another budget) the cell is run once without it."""


class Experiment(Options):
    """The whole file."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the run folder; letters, digits, dots, dashes and underscores."""
    description: str = ""
    """What the experiment is for; shown at the top of the report."""
    seed: int = 0
    """One seed for everything drawn at random."""
    batch_size: int = Field(default=64, ge=1)
    """Samples side by side; changes no result."""
    store: Literal["auto", "float", "int16", "uint8"] = "auto"
    """How adversarial samples are stored before they are judged; auto: 16-bit for clips, float for
    pictures."""
    examples: int = Field(default=3, ge=0)
    """Samples of each cell kept to look at and listen to."""
    audit: bool = True
    """Probe each attacked net and defence on a few samples for hidden gradients (task audit); the report
    shows what was found."""
    safe_mode: bool = False
    """A failed cell is recorded with its error and the run goes on."""
    tasks: list[TaskEntry] = Field(min_length=1)
    """The grids, one after another."""


def load_file(path: Path) -> dict[str, Any]:
    """The file's content as plain data."""
    if not path.is_file():
        raise UserError(
            f"There is no experiment file {path}. Ready-made ones stand in experiments/; `limen schema` "
            "shows the format."
        )
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(
            f"{path} must hold a mapping with `name` and `tasks`, but holds {type(content).__name__}. See "
            "`limen schema`."
        )
    return content


def read_experiment(content: Mapping[str, Any], path: Path, limit: int | None = None) -> Experiment:
    """The validated experiment; `limit` cuts every data set."""
    content = {"name": path.stem, **content}
    if limit is not None and isinstance(content.get("tasks"), list):
        content["tasks"] = [_limited(task, limit) for task in content["tasks"]]
    return parse_options(Experiment, content, str(path))


def _limited(task: Any, limit: int) -> Any:
    if not isinstance(task, dict) or not isinstance(task.get("nets"), list):
        return task  # the schema says what is wrong with it
    cut = lambda net: {**net, "data": {**net["data"], "limit": limit}}
    return {
        **task,
        "nets": [
            cut(n) if isinstance(n, dict) and isinstance(n.get("data"), dict) else n for n in task["nets"]
        ],
    }


def schema() -> dict[str, Any]:
    """JSON schema of an experiment file, with every component and its options."""
    root = Experiment.model_json_schema()
    definitions = root.setdefault("$defs", {})
    definitions["Surrogate"] = Surrogate.model_json_schema()
    for kind in (name for name, one in KINDS.items() if one.used_in == "experiment"):
        choices = []
        for name in names(kind):
            one = load(kind, name).options.model_json_schema()
            definitions.update(one.pop("$defs", {}))
            one["properties"] = {"name": {"const": name}, **one.get("properties", {})}
            if kind == "attacks":
                one["properties"] |= {
                    "goal": {"$ref": "#/$defs/goals"},
                    "budget": {"$ref": "#/$defs/budgets"},
                    "label": {"type": "string"},
                    "surrogate": {"$ref": "#/$defs/Surrogate"},
                    "precision": {"enum": list(get_args(Precision)), "default": "auto"},
                    "through": {"type": "array", "items": {"$ref": "#/$defs/defenses"}},
                    "draws": {"type": "integer", "minimum": 1},
                }
            one["required"] = ["name", *one.get("required", [])]
            choices.append(one)
        definitions[kind] = {"oneOf": choices}
    net, task = definitions["Net"]["properties"], definitions["TaskEntry"]["properties"]
    net["model"], net["data"], task["task"] = (
        {"$ref": "#/$defs/models"},
        {"$ref": "#/$defs/data"},
        {"$ref": "#/$defs/tasks"},
    )
    nothing = {"type": "null"}
    defense = {"$ref": "#/$defs/defenses"}
    several = {"type": "array", "items": defense, "minItems": 1}
    task["defenses"]["items"] = {"anyOf": [defense, several, nothing]}
    task["attacks"]["items"] = {"anyOf": [{"$ref": "#/$defs/attacks"}, nothing]}
    task["metrics"] = {
        **task["metrics"],
        "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/metrics"}}, nothing],
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root}
