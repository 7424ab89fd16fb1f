"""Several attacks in sequence, each on the samples that withstood the ones before, cheap attacks first.

The result of a sample is its first success or, without one, the point of highest loss. The
default fools at least what AutoAttack (Croce & Hein 2020, https://arxiv.org/abs/2003.01690) fools on the
networks of docs/benchmarks.md, in less than a quarter of its time: four starts of apgd with its softened
margin do most of the work; the runs towards single classes and the short random search are for models
whose gradients are misleading.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.engine.spec import AttackSpec
from limen.attacks.shared.best import Best
from limen.core.components import Component
from limen.core.errors import UserError

Spec = str | dict[str, Any]


def alone(spec: Spec) -> tuple[Component, AttackOptions]:
    """An attack of the sequence: a name, or {name, options}."""
    component, options = AttackSpec.parse_search(spec, "cascade")
    if options.universal:
        raise UserError(
            f"The attack {component.name} is universal: it is crafted once, on other samples, and cannot be "
            "part of a cascade. Run it as an attack of its own."
        )
    return component, options


def _checked(spec: Spec) -> Spec:
    try:
        alone(spec)
    except UserError as error:
        raise ValueError(str(error)) from None
    return spec


class Cascade(AttackOptions):
    compares_logits: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {
        "attacks": [{"name": "fgsm"}, {"name": "apgd", "steps": 4}, {"name": "square", "queries": 6}]
    }
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"attacks": [{"name": "pgd", "steps": 3}, {"name": "apgd", "loss": "dlr", "steps": 20}]},
    )

    attacks: list[Annotated[Spec, AfterValidator(_checked)]] = Field(
        min_length=1,
        default=[
            {"name": "apgd", "restarts": 4},
            {"name": "apgd", "loss": "dlr", "targets": 9, "steps": 50},
            {"name": "square", "queries": 500, "give_up": 0},
        ],
    )
    """Attacks in the order in which they run, each a name or {name: ..., option: value, ...}. Goal and budget
    are the cascade's."""

    @property
    def needs_budget(self) -> bool:
        return any(options.needs_budget for _, options in map(alone, self.attacks))

    @property
    def uses_gradients(self) -> bool:
        return any(options.uses_gradients for _, options in map(alone, self.attacks))

    def cost(self, classes: int | None = None) -> float:
        return total_cost(self.attacks, classes)


def total_cost(attacks: Sequence[Spec], classes: int | None) -> float:
    """Gradients of a sample that withstands all attacks."""
    return sum(options.cost(classes) for _, options in map(alone, attacks))


@torch.no_grad()
def cascade(problem: Problem, options: Cascade) -> Tensor:
    return in_turn(problem, options.attacks)


def in_turn(problem: Problem, attacks: Sequence[Spec]) -> Tensor:
    """The best point of every sample. A sample that reaches the goal, evaluated anew at the end of each
    attack, is finished."""
    best = Best.none(problem)
    best.loss, best.reached = problem.evaluate(problem.x)
    for component, options in map(alone, attacks):
        left = (~best.reached).nonzero().squeeze(1)
        if not len(left):
            break
        active = problem.rows(left)
        x_adv = component.function(active, options)
        best.take(left, x_adv, *active.evaluate(x_adv))
    return best.x
