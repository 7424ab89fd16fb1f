r"""Nesterov iterative fast gradient sign method. Lin et al. 2020, https://arxiv.org/abs/1908.06281:

    x_t^nes = x_t + alpha * mu * g_t
    g_{t+1} = mu * g_t + grad_x L(theta, x_t^nes, y) / || grad_x L(theta, x_t^nes, y) ||
    x_{t+1} = x_t + alpha * sign( g_{t+1} ),    alpha = eps / T

Like momentum (mi_fgsm), but the gradient is computed at the point that the momentum leads to. The norm is the
mean magnitude, as in the authors' code: with the sum, as in the paper, x^nes would hardly differ from x. For
other budgets than linf the sign becomes the steepest step of that norm, and gradients are divided by it.
Departs from the paper: x^nes is brought into budget and range, so that it can be the result of a sample that
is fooled there, and no pass but the gradient's is needed.
"""

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import expand


class NIFGSM(AttackOptions):
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
def ni_fgsm(problem: Problem, options: NIFGSM) -> Tensor:
    alpha = problem.ball.radius * (options.step_size or 1 / options.steps)
    x_adv, g, active = problem.x.clone(), torch.zeros_like(problem.x), problem
    left = torch.arange(len(problem), device=problem.x.device)
    for _ in range(options.steps):
        ahead = active.project(x_adv[left] + expand(alpha[left] * options.decay, g) * g)
        gradient, _, reached = active.gradient(ahead, confirm=options.early_stop)
        if options.early_stop and active.deterministic and bool(reached.any()):
            x_adv[left[reached]] = ahead[reached]
            stay = ~reached
            active, left, gradient, g = active.rows(stay), left[stay], gradient[stay], g[stay]
            if not len(left):
                break
        size = (
            gradient.flatten(1).abs().mean(1)
            if active.ball.norm_name in ("linf", None)
            else active.ball.norm(gradient)
        )
        g = options.decay * g + gradient / expand(size.clamp_min(torch.finfo(g.dtype).tiny), g)
        x_adv[left] = active.step(x_adv[left], g, alpha[left])
    return x_adv
