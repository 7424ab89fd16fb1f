r"""Gradient estimates by natural evolution strategies, from scores only. Ilyas et al. 2018,
https://arxiv.org/abs/1804.08598:

    g = 1 / (2 sigma n) sum_j ( f(x + sigma u_j) - f(x - sigma u_j) ) u_j,    u_j ~ N(0, I)
    x_{t+1} = Proj_B( x_t + alpha * steepest_B( m_t ) ),    m_t = momentum * m_{t-1} + g / mean|g|

f is the margin of a classifier or the loss of the goal. Departs from the paper: probes keep budget and range,
so a probe that reaches the goal ends the search; alpha shrinks linearly instead of falling on plateaus; the
point itself is not evaluated.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.score_estimates import gaussian, planned, probed
from limen.budgets.families.balls import expand


class NES(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60}

    queries: int = Field(default=5000, ge=3)
    """Largest number of evaluations of the model per sample."""
    directions: int = Field(default=5, ge=1)
    """Random directions n of a step; each costs two evaluations. The paper uses 25 to 50 and less momentum,
    which is less efficient."""
    sigma: float = Field(default=0.01, gt=0)
    """Length of a probe per pixel or sample, in input units. The paper takes 0.001."""
    step_size: float = Field(default=0.5, gt=0)
    """Length of the first step as a share of the budget's radius."""
    momentum: float = Field(default=0.97, ge=0)
    """Share of the last direction that is kept."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@torch.no_grad()
def nes(problem: Problem, options: NES) -> Tensor:
    alpha = problem.ball.radius * options.step_size
    x_adv, active, reached = problem.x.clone(), problem, problem.reached(problem.x)
    left, m = torch.arange(len(problem), device=x_adv.device), torch.zeros_like(x_adv)
    directions, steps = planned(problem, options.queries, options.directions)
    for step in range(steps):
        if problem.deterministic and bool(reached.any()):
            active, left, m = active.rows(~reached), left[~reached], m[~reached]
            if not len(left):
                break
        found = probed(active, x_adv[left], gaussian, directions, options.sigma)
        reached, g = found.reached, found.gradient
        m = options.momentum * m + g / expand(
            g.flatten(1).abs().mean(1).clamp_min(torch.finfo(g.dtype).tiny), g
        )
        x = active.step(x_adv[left], m, alpha[left] * (1 - step / steps))
        x_adv[left] = torch.where(expand(reached, x), found.x, x)
    return x_adv
