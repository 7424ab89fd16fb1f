"""AutoAttack, the published set of attacks. Croce & Hein 2020, https://arxiv.org/abs/2003.01690.

- standard: apgd (ce), apgd (dlr, towards 9 classes), fab (towards 9 classes), square.
- plus: apgd (ce) and apgd (dlr) with 5 restarts, fab with 5 restarts, square, apgd towards 9 classes, fab
  towards 9 classes.
- rand: apgd (ce) and apgd (dlr), on the mean of 20 answers of a model that draws at random.

L1 budgets (Croce & Hein 2021, https://arxiv.org/abs/2103.01208): standard makes 5 restarts and leads apgd
towards 5 classes. Each attack runs on the samples that withstood the ones before; for the others the first
success is kept. Departs from the authors' code: a sample is finished as soon as it is fooled, not when its
attack ends, and samples without prospect of success are given up early (`give_up`); docs/benchmarks.md
compares accuracy and time. The attack cascade of this package is as strong on the networks of
docs/benchmarks.md, and faster.
"""

import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.cascade import in_turn, total_cost
from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.budget_needs import need_norm

DRAWS = 20
"""rand: answers of a random model that are averaged for one gradient, unless the model or the attack's
`draws` names more than one."""


class AutoAttack(AttackOptions):
    compares_logits: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {"steps": 4, "queries": 6}

    version: Literal["standard", "plus", "rand"] = "standard"
    """Which set."""
    steps: int = Field(default=100, ge=1)
    """Steps of one run of apgd or fab; 100 is the published set."""
    queries: int = Field(default=5000, ge=2)
    """Points that square tries; 5000 is the published set."""
    give_up: float = Field(default=2.0, ge=0)
    """fab and square give up samples that would not reach the goal if each further doubling of the steps
    gained this many times as much as the last one; 0: they make all their steps, as published."""

    def cost(self, classes: int | None = None) -> float:
        return total_cost(published(self), classes)


@torch.no_grad()
def auto_attack(problem: Problem, options: AutoAttack) -> Tensor:
    need_classes(problem, "auto_attack")
    if options.version != "rand":  # square runs last: refuse its budget now, not after all of apgd
        need_norm(problem, "auto_attack", "linf", "l2", "l1", "l0", per_value=True)
    if options.version == "rand" and problem.model.random:
        model = copy.copy(problem.model)  # shares the weights
        model.draws = model.draws if model.draws > 1 else DRAWS
        problem = replace(problem, model=model)
    return in_turn(problem, published(options, l1=problem.ball.norm_name == "l1"))


def published(options: AutoAttack, l1: bool = False) -> list[str | dict[str, Any]]:
    steps = {"steps": options.steps}
    ce, dlr = ({"name": "apgd", "loss": loss, "random_start": True, **steps} for loss in ("ce", "dlr"))
    early = {"give_up": options.give_up}
    fab, square = (
        {"name": "fab", **steps, **early},
        {"name": "square", "queries": options.queries, "rescale": False, **early},
    )
    if options.version == "rand":
        return [ce, dlr]
    if options.version == "plus":
        five = {"restarts": 5}
        return [
            {**ce, **five},
            {**dlr, **five},
            {**fab, **five},
            square,
            {**dlr, "targets": 9},
            {**fab, "targets": 9},
        ]
    return [
        {**ce, "restarts": 5 if l1 else 1},
        {**dlr, "targets": 5 if l1 else 9},
        {**fab, "targets": 9},
        square,
    ]
