r"""Augmented Lagrangian: the size of the change against the constraint that the model is fooled, with one
multiplier per sample. Rony et al. 2021, https://arxiv.org/abs/2011.11857:

    minimise  ||delta||_p    subject to    c(x + delta) < 0
    delta_{k+1} = clip( delta_k - eta_k * grad ( ||delta_k||_p + P(c, rho_k, mu_k) ) )
    P(c, rho, mu) = mu * c + mu * rho * c^2 + rho^2 * c^3 / 6   for c >= 0,    mu * c / (1 - rho * c)
        for c < 0     (their P2)
    mu_{k+1}  = 0.8 * mu_k + 0.2 * dP/dc(c_k),
        rho grows by a fifth whenever ten steps neither fooled the model nor lowered c by 5 %

Departs from the paper:
- c is minus the margin of the logits over that of the clean sample (the paper: over the spread of the
  logits), so that c = 1 at the clean
  sample; its gradient is softened over the other classes (`smooth_margin`),
      leaves out values that the range stops and is scaled to a dual
  norm of 1. The best multiplier of a linear model in a wide range is then mu = 1, at which it starts.
- The norm acts through its proximal step and not through its gradient: an l1 change becomes sparse, a linf
  change even.
- Gradients are averaged over about two steps; there is no RMSProp. eta starts from the distance to the
  linearised boundary and falls
  along half a cosine, instead of by a line search and from the first success on. rho starts at 3 and mu
  forgets a fifth per step (the paper: 1, a tenth).

Median L2 at 100 steps on 64 digits and two small networks (standard, adversarially trained) 1.22 and 1.73, L1
5.22 and 4.96; the best settings of another library's ALMA, which follows the paper, give 1.24 and 1.76, 5.58
and 7.48.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.smallest_change import (
    BALLS,
    DUALS,
    annealed,
    clean_gradient,
    room,
    shares,
    sizes,
    smooth_margin,
    temperatures,
)
from limen.budgets.families.balls import expand

STEPS = {"l1": 2.0, "l2": 2.0, "linf": 0.3}


class ALMA(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(
        options={
            "linf": {"norm": "linf", "steps": 300},
            "l2": {"norm": "l2", "steps": 300},
            "l1": {"norm": "l1", "steps": 300},
        }
    )
    quick: ClassVar[dict[str, Any]] = {"steps": 6}
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"norm": "l1"}, {"norm": "linf"})

    norm: Literal["l1", "l2", "linf"] = "l2"
    """Norm of the change that is kept small."""
    steps: int = Field(default=100, ge=2)
    """Gradients, the first at the clean sample."""
    step_size: float = Field(default=0.0, ge=0)
    """First eta; it falls to a hundredth along half a cosine. In units of the distance to the linearised
    boundary (linf: times the number of values; l1: at most the widest change that the range allows). 0 means
    2 for l1 and l2, 0.3 for linf."""
    rho: float = Field(default=3.0, gt=0)
    """First rho, the weight of the penalty's curvature."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def alma(problem: Problem, options: ALMA) -> Tensor:
    need_classes(problem, "alma")
    best, active, left, gradient, margin = clean_gradient(problem)
    x_adv, clean, norm = active.x, margin, options.norm
    g = active.movable(x_adv, gradient)
    unit = _unit(active, g, margin, norm)
    c, mu, rho, momentum = (
        torch.ones_like(margin),
        torch.ones_like(margin),
        torch.full_like(margin, options.rho),
        torch.zeros_like(x_adv),
    )
    checked = c
    for step in range(1, options.steps if len(left) else 0):
        first = options.step_size or STEPS[norm]
        eta = annealed(step, options.steps, first, first / 100) * unit
        weight = _slope(c, rho, mu)
        momentum = (momentum + g * expand(shares(weight, g.flatten(1).norm(p=DUALS[norm], dim=1)), g)) / 2
        x_adv = active.clip(
            active.x
            + _shrink(x_adv - active.x + expand(eta, g) * momentum, eta if step > 1 else 0 * eta, norm)
        )
        mu = (0.8 * mu + 0.2 * weight).clamp(1e-6, 1e12)
        gradient, margin, reached = active.gradient(
            x_adv, loss=smooth_margin(active.goal, temperatures(clean, step, options.steps))
        )
        g = active.movable(x_adv, gradient)
        best.take(left, x_adv, sizes(x_adv - active.x, norm), reached & (margin > 0))
        # bounded, because a clean sample may be close to the boundary; NaN carries no information
        c = shares(-margin, clean.abs()).clamp(-10, 10).nan_to_num(1.0)
        if step % 10 == 0:
            rho = torch.where((best.size[left] < torch.inf) | (c < 0.95 * checked), rho, 1.2 * rho)
            checked = c
    return problem.project(best.x)


def _unit(active: Problem, g: Tensor, margin: Tensor, norm: str) -> Tensor:
    """(B,) the unit of eta. One step adds eta times a gradient of dual norm 1: for linf, the sum over the
    movements of all values."""
    distance = shares(-margin, g.flatten(1).norm(p=DUALS[norm], dim=1)).minimum(room(active, norm))
    if norm == "l1":
        return distance.minimum(room(active, "linf"))  # a value may move by all of an l1 change
    return distance if norm == "l2" else distance * sizes(g, "l0")


def _slope(c: Tensor, rho: Tensor, mu: Tensor) -> Tensor:
    """dP/dc."""
    over, under = c.clamp_min(0), c.clamp_max(0)
    return torch.where(
        c >= 0, mu + 2 * mu * rho * over + (rho * over).square() / 2, mu / (1 - rho * under).square()
    )


def _shrink(delta: Tensor, eta: Tensor, norm: str) -> Tensor:
    """The proximal step: argmin_d ||d||_p + ||d - delta||_2^2 / (2 eta)."""
    if norm == "l1":
        return delta.sign() * (delta.abs() - expand(eta, delta)).clamp_min(0)
    if norm == "l2":
        size = sizes(delta, "l2")
        return delta * expand(shares((size - eta).clamp_min(0), size), delta)
    return delta - BALLS["l1"](eta).project(delta)
