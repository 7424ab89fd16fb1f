r"""Fast gradient sign method. Goodfellow et al. 2015, https://arxiv.org/abs/1412.6572:

    x_adv = x + eps * sign( grad_x L(theta, x, y) )

For other budgets than linf the sign becomes the steepest step of that norm. Departs from the paper: a clean
sample that reaches the goal is not changed; `search` tries several radii along the same gradient and keeps
the smallest that reaches the goal.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions
from limen.attacks.engine.problem import Problem
from limen.core.types import select


class FGSM(AttackOptions):
    starts_clean: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {"search": 3}

    search: int = Field(default=1, ge=1)
    """Number of equally spaced radii tried, the budget's being the largest; the smallest that reaches the
    goal is kept."""
    search_from: float | None = Field(default=None, gt=0, le=1)
    """Smallest radius tried, as a share of the budget's; null means 1 / search (0.001, 0.002, ... 1 for
    search: 1000)."""

    def cost(self, classes: int | None = None) -> float:
        return 1 + (self.search if self.search > 1 else 0) * FORWARD


@torch.no_grad()
def fgsm(problem: Problem, options: FGSM) -> Tensor:
    radius = problem.ball.radius
    gradient, _, reached = problem.gradient(problem.x)
    x_adv = problem.x.clone()
    left = (~reached).nonzero().squeeze(1)
    active, gradient = problem.rows(left), select(gradient, left)
    for share in (
        torch.linspace(options.search_from or 1 / options.search, 1, options.search).tolist()
        if options.search > 1
        else [1.0]
    ):
        x_adv[left] = active.step(active.x, gradient, share * radius[left])
        if options.search == 1 or not len(left):
            break
        stay = ~active.reached(x_adv[left])
        active, gradient, left = active.rows(stay), gradient[stay], left[stay]
    return x_adv
