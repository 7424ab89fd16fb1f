"""The specification of an attack in experiment files and `limen.attack`: the search with its options, and the
keys that every attack shares.

    {name: pgd, steps: 40, goal: {name: untargeted}, budget: {name: linf, eps: 0.03}, through: [room]}
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.physical import Transform
from limen.attacks.engine.precision import Precision
from limen.core.components import Component, SpecOf, parse, spec_of
from limen.core.errors import UserError
from limen.core.options import Options, parse_options, short_repr
from limen.goals.base.options import GoalOptions
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model

ChosenGoal = tuple[Component, GoalOptions]
ChosenBudget = tuple[Component, Options]
"""A component and its validated options."""


def _chosen(kind: str, spec: Any) -> Any:
    """Parsed; a mistake names the field it is in."""
    try:
        return spec if isinstance(spec, tuple) else parse(kind, spec)
    except UserError as error:
        raise ValueError(str(error)) from None


def _schema(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "string"}, {"component": kind}]})


Goal = Annotated[ChosenGoal, BeforeValidator(partial(_chosen, "goals")), _schema("goals")]
Budget = Annotated[ChosenBudget, BeforeValidator(partial(_chosen, "budgets")), _schema("budgets")]


class Surrogate(Options):
    """Other models that the attack is computed on (transfer)."""

    models: list[Annotated[dict[str, Any], spec_of("models")]] = Field(min_length=1)
    """The surrogate models; their losses are added, and the goal must be reached on all of them."""
    label: str | None = None
    """Name in tables and figures; null takes the names of the models."""
    dropout: bool = False
    """Dropout stays on in the surrogates, so the attack overfits them less."""
    stop: Annotated[dict[str, Any], spec_of("models")] | None = None
    """A held-out model that scores the points of the search without being differentiated: the point with the
    best score is the result."""
    stop_every: int = Field(default=1, ge=1)
    """Number of gradients between two evaluations of the held-out model."""

    @property
    def title(self) -> str:
        """Name in tables and figures."""
        return self.label or " + ".join(str(model["name"]) for model in self.models)

    def attacked_model(self, load: Callable[[dict[str, Any]], Model]) -> Model:
        """The model that the attack differentiates; `load` gives a model for its spec."""
        models = [load(spec) for spec in self.models]
        return models[0] if len(models) == 1 and not self.dropout else Ensemble(models, self.dropout)

    def resolved(self) -> dict[str, Any]:
        """All but the label, with every default written out."""
        return {
            **self.model_dump(mode="json", exclude={"label"}),
            "models": [_written(parse("models", model)) for model in self.models],
            "stop": None if self.stop is None else _written(parse("models", self.stop)),
        }


class AttackSpec(Options):
    """A search with its options, and the keys that every attack shares."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    search: SkipJsonSchema[tuple[Component, AttackOptions]]
    """The attack and its options."""
    goal: Goal = Field(default="untargeted", validate_default=True)
    """What the attacker wants: {name: target_class, target: 3}."""
    budget: Budget | None = None
    """What the attacker may change: {name: linf, eps: 0.03}; null for attacks that need none."""
    precision: Precision = "auto"
    """Floating-point precision of the search; auto: double for recognisers, else that of the samples."""
    through: list[Transform] = Field(default=[])
    """Random transforms (components of defenses) that the search sees in front of the model, in the order in
    which a sample passes them; success is judged without them."""
    draws: int | None = Field(default=None, ge=1)
    """Random draws that a gradient averages; null: as many as the transforms and the model declare."""
    label: str | None = None
    """Name in tables and figures; null takes the attack's name."""
    surrogate: Surrogate | None = None
    """Other models that the attack is computed on (transfer)."""

    @classmethod
    def shared(cls) -> list[str]:
        """The keys of a spec that every attack takes; all others are options of the search."""
        return [name for name in cls.model_fields if name != "search"]

    @classmethod
    def parse(cls, spec: Any) -> "AttackSpec":
        """From a name, or a mapping of the name, options of the search and shared keys. A shared key that is
        null keeps its default."""
        if isinstance(spec, AttackSpec):
            return spec
        given = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
        own = {key: given.pop(key) for key in cls.shared() if key in given}
        search = parse("attacks", given)
        values = {key: value for key, value in own.items() if value is not None}
        return parse_options(cls, {**values, "search": search}, f"attack {search[0].name}")

    @classmethod
    def parse_search(cls, spec: Any, where: str) -> tuple[Component, AttackOptions]:
        """The search of an attack inside of another one (`where`), on which the shared keys are set."""
        if isinstance(spec, Mapping) and (extra := sorted(set(cls.shared()) & set(spec))):
            raise UserError(
                f"An attack inside a {where} has no {', '.join(extra)} of its own, but it is given for "
                f"{short_repr(spec.get('name'))}. Set it on the {where}."
            )
        component, options = parse("attacks", spec)
        assert isinstance(options, AttackOptions)
        return component, options

    @property
    def name(self) -> str:
        """Name of the search."""
        return self.search[0].name

    @property
    def options(self) -> AttackOptions:
        """Options of the search."""
        return self.search[1]

    @property
    def title(self) -> str:
        """Name in tables and figures: the label, or the name with its transforms and surrogates."""
        if self.label:
            return self.label
        transforms = " + ".join(parse("defenses", transform)[0].name for transform in self.through)
        behind = f" through {transforms}" if transforms else ""
        surrogate = f" on {self.surrogate.title}" if self.surrogate else ""
        return f"{self.name}{behind}{surrogate}"

    def facts(self) -> dict[str, bool]:
        """What a run folder records about the attack (`attack_info` in cell.json)."""
        return {**self.options.facts(), "targeted": self.goal[1].targeted}

    def resolved(self) -> dict[str, Any]:
        """The spec as plain data with every default written out, but without labels: what a cell's id is made
        from. `through`, `draws` and `surrogate` appear only if given."""
        full = {
            **_written(self.search),
            "goal": _written(self.goal),
            "budget": None if self.budget is None else _written(self.budget),
            "precision": self.precision,
        }
        if self.through:
            full["through"] = [_written(parse("defenses", transform)) for transform in self.through]
        if self.draws is not None:
            full["draws"] = self.draws
        if self.surrogate is not None:
            full["surrogate"] = self.surrogate.resolved()
        return full


def _written(chosen: tuple[Component, Options]) -> dict[str, Any]:
    return chosen[0].spec(chosen[1])


class SpecOfAttack(SpecOf):
    """As `spec_of("attacks")`, for a spec that may hold all shared keys."""

    def check(self, value: Any) -> None:
        AttackSpec.parse(value)
