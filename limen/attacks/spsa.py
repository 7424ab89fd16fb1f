r"""Simultaneous perturbation stochastic approximation, from scores only. Uesato et al. 2018,
https://arxiv.org/abs/1802.05666:

    g = 1/n sum_j ( f(x + c u_j) - f(x - c u_j) ) / (2 c) * u_j,    u_j in {-1, +1}^d with even odds
    x_{t+1} = Proj_B( x_t + Adam(g) )

f is the margin of a classifier, as in the paper, or the loss of the goal. Departs from the paper: probes keep
budget and range, so a probe that reaches the goal ends the search; the rate shrinks linearly and is a share
of the budget; the point itself is not evaluated.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.score_estimates import planned, probed, signs
from limen.budgets.families.balls import expand


class SPSA(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60}

    queries: int = Field(default=5000, ge=3)
    """Largest number of evaluations of the model per sample."""
    directions: int = Field(default=5, ge=1)
    """Random directions n of a step; each costs two evaluations. The paper uses 64 to 4096, and many more
    evaluations in total."""
    c: float = Field(default=0.01, gt=0)
    """Length of a probe per pixel or sample, in input units."""
    learning_rate: float = Field(default=0.5, gt=0)
    """Adam's first rate, as a share of the largest change of one pixel or sample that the budget allows when
    it is spread evenly."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@torch.no_grad()
def spsa(problem: Problem, options: SPSA) -> Tensor:
    even = problem.ball.spread(torch.ones_like(problem.x) if problem.mask is None else problem.mask)
    rate = options.learning_rate * even.flatten(1).abs().amax(1)
    x_adv, active, reached = problem.x.clone(), problem, problem.reached(problem.x)
    left, first, second = (
        torch.arange(len(problem), device=x_adv.device),
        torch.zeros_like(x_adv),
        torch.zeros_like(x_adv),
    )
    directions, steps = planned(problem, options.queries, options.directions)
    for step in range(1, steps + 1):
        if problem.deterministic and bool(reached.any()):
            active, left, first, second = (
                active.rows(~reached),
                left[~reached],
                first[~reached],
                second[~reached],
            )
            if not len(left):
                break
        found = probed(active, x_adv[left], signs, directions, options.c)
        reached, g = found.reached, found.gradient
        first.mul_(0.9).add_(g, alpha=0.1)
        second.mul_(0.999).addcmul_(g, g, value=0.001)
        up = first / (1 - 0.9**step) / (second / (1 - 0.999**step)).sqrt().add_(torch.finfo(g.dtype).tiny)
        x = active.project(x_adv[left] + expand(rate[left] * (1 - (step - 1) / steps), up) * up)
        x_adv[left] = torch.where(expand(reached, x), found.x, x)
    return x_adv
