r"""Momentum iterative fast gradient sign method. Dong et al. 2018, https://arxiv.org/abs/1710.06081:

    g_{t+1} = mu * g_t + grad_x L(theta, x_t, y) / || grad_x L(theta, x_t, y) ||_1
    x_{t+1} = x_t + alpha * sign( g_{t+1} ),    alpha = eps / T

For other budgets than linf the sign becomes the steepest step of that norm.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import expand


class MIFGSM(AttackOptions):
    starts_clean: ClassVar[bool] = True

    steps: int = Field(default=10, ge=1)
    """Gradient steps T."""
    step_size: float = Field(default=0.0, ge=0)
    """Length of a step as a share of the budget's radius; 0 means 1 / steps, as in the paper."""
    decay: float = Field(default=1.0, ge=0)
    """Share mu of the last direction that is kept."""
    early_stop: bool = True
    """A sample leaves the batch as soon as it reaches the goal. If false, every step is made, as in the
    paper."""

    @property
    def continues_after_success(self) -> bool:
        return not self.early_stop

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def mi_fgsm(problem: Problem, options: MIFGSM) -> Tensor:
    alpha, active, found = (
        problem.ball.radius * (options.step_size or 1 / options.steps),
        problem,
        problem.x.clone(),
    )
    x_adv, g = problem.x, torch.zeros_like(problem.x)
    left = torch.arange(len(problem), device=problem.x.device)
    for _ in range(options.steps):
        gradient, _, reached = active.gradient(x_adv, confirm=options.early_stop)
        if options.early_stop and active.deterministic and bool(reached.any()):
            found[left[reached]] = x_adv[reached]
            stay = ~reached
            active, left, x_adv, gradient, g, alpha = (
                active.rows(stay),
                left[stay],
                x_adv[stay],
                gradient[stay],
                g[stay],
                alpha[stay],
            )
            if not len(left):
                break
        norm = gradient.flatten(1).norm(p=1, dim=1).clamp_min(torch.finfo(g.dtype).tiny)
        g = g.mul_(options.decay).addcdiv_(gradient, expand(norm, g))
        del gradient  # memory
        x_adv = active.step(x_adv, g, alpha)
    found[left] = x_adv
    return found
