r"""Random step, then fast gradient sign. Tramer et al. 2018, https://arxiv.org/abs/1705.07204:

    x' = x + alpha * sign( N(0, I) ),    x_adv = x' + (eps - alpha) * sign( grad_{x'} L(theta, x', y) )

The random step leaves the neighbourhood in which a defence may have flattened the loss. For other budgets
than linf both signs become the steepest step of that norm.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.core.seeds import normal_like


class RFGSM(AttackOptions):
    # the random step may go in the opposite direction: in the worst case (1 - alpha) - alpha of the radius is
    # left
    promise: ClassVar[LinearPromise] = LinearPromise(
        1.01 / (1 - 2 * 0.2), options={"linf": {"alpha": 0.2}, "l2": {"alpha": 0.2}, "l1": {"alpha": 0.2}}
    )

    alpha: float = Field(default=0.5, gt=0, lt=1)
    """Length of the random step as a share of the budget's radius; the rest is left to the gradient."""


@torch.no_grad()
def r_fgsm(problem: Problem, options: RFGSM) -> Tensor:
    radius = problem.ball.radius
    direction = normal_like(problem.x, problem.generators, None if problem.mask is None else problem.lengths)
    x_start = problem.step(problem.x, direction, options.alpha * radius)
    gradient, _, reached = problem.gradient(x_start)
    x_adv = problem.step(x_start, gradient, (1 - options.alpha) * radius)
    x_adv[reached] = x_start[reached]
    return x_adv
