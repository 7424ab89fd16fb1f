"""What a budget declares about itself: its bound, the metric that measures it, and how to put it in words.

Reports, tables and the constrained tasks read these facts; none of them depends on the name of a budget.
"""

from typing import Any, ClassVar

from limen.budgets.families.budget import Budget, BudgetContext
from limen.core.components import Component, load, names, parse
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Kind

DEFAULTS: dict[Kind, dict[str, Any]] = {
    "picture": {"name": "linf", "eps": 8 / 255},
    "clip": {"name": "snr", "snr_db": 30},
}


class BudgetOptions(Options):
    """Options of a budget. Class variables declare what others must know about it."""

    bound: ClassVar[str]
    """The option that limits the change: "eps", "snr_db"."""
    column: ClassVar[str | None] = None
    """The metric column that measures the same quantity; None if no metric does."""
    larger_is_stronger: ClassVar[bool] = True
    """True if a larger bound allows more."""
    text: ClassVar[str]
    """A few words with {} for the bound: "L∞ ≤ {}"."""
    sentence: ClassVar[str]
    """What the attacker may do, with {} for the bound: "may change each value by at most {}"."""
    heading: ClassVar[str]
    """Label of an axis along which the bound varies, with its unit."""
    nothing_at: ClassVar[float | None] = 0.0
    """The value of the bound at which nothing may change; None if there is none (decibels)."""
    scalable: ClassVar[bool] = True
    """True if a change can be scaled to a size of exactly the bound (`Budget.fill`)."""
    probed_by_queries: ClassVar[bool] = False
    """True if the audit also tries a search without gradients under this budget."""
    kinds: ClassVar[tuple[Kind, ...]] = ("picture", "clip")
    """Kinds of samples it can limit."""


def declared(component: Component) -> type[BudgetOptions]:
    """What the component declares about the budget it makes."""
    if not issubclass(component.options, BudgetOptions):
        raise UserError(
            f"The options of the budget {component.name} must extend BudgetOptions of "
            f"limen.budgets.families.options; got {component.options.__name__}."
        )
    return component.options


def make_budget(budget: tuple[Component, Options], context: BudgetContext) -> Budget:
    """The budget around the samples of the context."""
    component, options = budget
    kinds = declared(component).kinds
    if context.kind not in kinds:
        others = [name for name in names("budgets") if context.kind in declared(load("budgets", name)).kinds]
        raise UserError(
            f"The budget {component.name} is for {' and '.join(f'{k}s' for k in kinds)}; got "
            f"{context.kind}s. Budgets for {context.kind}s: {', '.join(others)}."
        )
    made: Budget = component.function(context, options)
    return made


def default_budget(kind: Kind) -> dict[str, Any]:
    """The budget of probes under which an attack without one of its own is compared."""
    return DEFAULTS[kind]


def budget_facts(component: Component) -> dict[str, Any]:
    """What the report must know about a budget for any bound; {} in the words is for the bound."""
    facts = declared(component)
    return {
        "name": component.name,
        "option": facts.bound,
        "column": facts.column,
        "larger_is_stronger": facts.larger_is_stronger,
        "heading": facts.heading,
        "nothing_at": facts.nothing_at,
        "text": facts.text,
        "sentence": facts.sentence,
    }


def budget_info(budget: tuple[Component, Options] | None) -> dict[str, Any] | None:
    """The facts with the value of the bound put in; None without a budget."""
    if budget is None:
        return None
    facts, value = budget_facts(budget[0]), float(getattr(budget[1], declared(budget[0]).bound))
    shown = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return facts | {
        "value": value,
        "text": facts["text"].format(shown),
        "sentence": facts["sentence"].format(shown),
        "text_template": facts["text"],
        "sentence_template": facts["sentence"],
    }


def bounded(spec: dict[str, Any], value: float) -> tuple[Component, Options] | None:
    """The budget `spec`, which leaves its bound out, at this value of the bound; None if nothing may change
    there. A value that the budget does not allow is a UserError."""
    component = load("budgets", str(spec.get("name")))
    facts = declared(component)
    if facts.bound in spec:
        raise UserError(
            f"The values tried set the bound of the budget {component.name}: leave {facts.bound} out."
        )
    if value == facts.nothing_at:
        return None
    return parse("budgets", {**spec, facts.bound: value})
