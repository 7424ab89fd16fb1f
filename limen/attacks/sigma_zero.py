r"""Sigma-zero: few changed values, by gradients of a smooth count of the changed values. Cinà et al. 2025,
https://arxiv.org/abs/2402.01879:

    minimise  max( -margin(x + delta), 0 ) + 1/d * sum_i delta_i^2 / (delta_i^2 + sigma)
    v_k         = gradient / || gradient ||_inf,    delta_{k+1} = clip( Adam(delta_k, v_k, eta_k) )
    tau_{k+1}   = tau_k + t * eta_k  where x + delta_k is adversarial,  tau_k - t * eta_k  elsewhere
    delta_{k+1} = 0  wherever |delta_{k+1}| < tau_{k+1}

sigma, tau and eta are in units of the range; eta falls to a tenth along half a cosine.

Departs from the paper: a value is reset if it gains too little, delta_i * (grad margin)_i < tau * (the
largest such gain of the sample), and not if it is small itself, because a small change of an important value
is worth keeping; tau therefore moves faster (t = 0.2, the paper 0.01). The gradient of the margin is softened
over the other classes (`smooth_margin`) and scaled to a largest entry of 1 before the smooth count is added,
so that the scale of the logits does not matter. On 64 digits and two small networks (standard, adversarially
trained), the mean after 100 steps is 6.4 and 6.8 changed pixels; 7.2 and 9.9 with the paper's rules.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.smallest_change import (
    annealed,
    clean_gradient,
    shares,
    sizes,
    smooth_margin,
    temperatures,
)
from limen.budgets.families.balls import expand


class SigmaZero(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    # counts values; its own exact problem is in tests/attacks/test_sparse.py
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"steps": 6}

    steps: int = Field(default=100, ge=2)
    """Gradients, the first at the clean sample."""
    step_size: float = Field(default=1.0, gt=0)
    """First learning rate eta of Adam, as a share of the range; it falls to a tenth along half a cosine."""
    sigma: float = Field(default=0.001, gt=0)
    """How sharp the smooth count is: a change of sqrt(sigma) of the range counts one half."""
    threshold: float = Field(default=0.3, ge=0, le=1)
    """First tau, as a share of the largest gain."""
    pace: float = Field(default=0.2, gt=0)
    """Change of the threshold per step, as a multiple of eta."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def sigma_zero(problem: Problem, options: SigmaZero) -> Tensor:
    need_classes(problem, "sigma_zero")
    best, active, left, gradient, margin = clean_gradient(problem)
    x_adv, clean, success = active.x, margin, torch.zeros_like(left, dtype=torch.bool)
    high, low = (active.clip(torch.full_like(active.x, end)) for end in (torch.inf, -torch.inf))
    width = high - low
    real = torch.ones_like(x_adv) if active.mask is None else active.mask.to(x_adv).expand_as(x_adv)
    values = expand(real.flatten(1).sum(1), x_adv)
    first, second = torch.zeros_like(x_adv), torch.zeros_like(x_adv)  # Adam's moments
    tau = torch.full_like(margin, options.threshold)
    for step in range(1, options.steps if len(left) else 0):
        delta = shares(x_adv - active.x, width)
        count = 2 * options.sigma * delta / (delta.square() + options.sigma).square() / values
        slope = _scaled(count - torch.where(expand(success, delta), 0, _scaled(gradient * width)))
        first.mul_(0.9).add_(slope, alpha=0.1)
        second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        eta = annealed(step - 1, options.steps, options.step_size, options.step_size / 10)
        rate, scale = eta / (1 - 0.9**step), (1 - 0.999**step) ** -0.5
        there = active.clip(x_adv - rate * width * first / (second.sqrt() * scale + 1e-8))
        tau = (tau + torch.where(success, options.pace, -options.pace) * eta).clamp(0, 1)
        gain = _scaled(((there - active.x) * gradient).clamp_min(0))
        x_adv = torch.where(gain < expand(tau, gain), active.x, there)
        gradient, margin, reached = active.gradient(
            x_adv, loss=smooth_margin(active.goal, temperatures(clean, step, options.steps))
        )
        success = reached & (margin > 0)
        best.take(left, x_adv, sizes(x_adv - active.x, "l0"), success)
    return problem.project(best.x)


def _scaled(values: Tensor) -> Tensor:
    """Scaled to a largest entry of 1; zero stays zero."""
    largest = values.flatten(1).abs().amax(1)
    return values * expand(shares(torch.ones_like(largest), largest), values)
