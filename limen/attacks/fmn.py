r"""Fast minimum norm: gradient steps in a ball whose radius converges to the boundary, in four norms.
Pintor et al. 2021, https://arxiv.org/abs/2102.12827:

    eps_k   = ||delta_k||_p + L(x + delta_k) / || grad L ||_q
        until the first success, q dual to p (l0: eps_k grows by gamma)
    eps_k   = min( (1 - gamma_k) * eps_{k-1}, ||delta*||_p )         where x + delta_k is adversarial
    eps_k   = (1 + gamma_k) * eps_{k-1}
        elsewhere; at least one pixel down or up for l0
    delta_{k+1} = Proj_{||.||_p <= eps_k} ( delta_k - alpha_k * grad L / ||grad L||_2 ),  then into the range

L is minus the margin of the logits, delta* the smallest success, alpha and gamma fall along half a cosine.

Departs from the paper:
- The gradient of the margin is softened over the other classes (`smooth_margin`) and leaves out values that
  the range stops.
- alpha is a share of eps (l0: of the range) and not in input units; a linf step is the steepest one, a sign;
  an l0 step is scaled by its
  largest entry.
- An l1 ball and the range are projected onto at once; a part cut off by the range afterwards would be lost.
- An l0 change keeps the values with the largest gain, delta_i * (grad margin)_i, and not the largest values:
  a value close to an end of the range may gain much.
- Before the first success eps grows by gamma at least: the estimate alone may stagnate. Well beyond the
  boundary (l1, l2, linf) it shrinks by the same estimate, by a half at most: gamma alone would take too many
  steps.

Median size at 100 steps on 64 digits and two small networks (standard, adversarially trained), in brackets
the best that three other libraries' FMN reach at three step sizes: l0 6, 6 (6, 8); l1 5.18, 4.97 (5.32,
5.09); l2 1.22, 1.74 (1.25, 1.80); linf 0.102, 0.300 (0.107, 0.305).
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
from limen.attacks.shared.sparse_steps import project_l1
from limen.budgets.families.balls import expand

STEPS = {"l0": 10.0, "l1": 1.0, "l2": 4.0, "linf": 1.0}


class FMN(AttackOptions):
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

    norm: Literal["l0", "l1", "l2", "linf"] = "l2"
    """Norm of the change that is kept small."""
    steps: int = Field(default=100, ge=2)
    """Gradients, the first at the clean sample."""
    step_size: float = Field(default=0.0, ge=0)
    """First alpha, as a share of eps (l0: of the widest change the range allows); it falls to a hundredth
    along half a cosine. 0 means 10 for l0, 1 for l1, 4 for l2, 1 for linf."""
    gamma: float = Field(default=0.1, gt=0, lt=1)
    """First share by which eps shrinks or grows; it falls to a hundredth likewise."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def fmn(problem: Problem, options: FMN) -> Tensor:
    need_classes(problem, "fmn")
    best, active, left, gradient, margin = clean_gradient(problem)
    x_adv, clean, norm, first_alpha = active.x, margin, options.norm, options.step_size or STEPS[options.norm]
    g = active.movable(x_adv, gradient)
    largest, widest = room(active, norm), room(active, "linf")
    eps = torch.ones_like(margin) if norm == "l0" else _linear(-margin, g, norm).minimum(largest)
    for step in range(1, options.steps if len(left) else 0):
        alpha, gamma = (
            annealed(step, options.steps, first, first / 100) for first in (first_alpha, options.gamma)
        )
        there = x_adv + _direction(g, norm) * expand(alpha * (widest if norm == "l0" else eps), g)
        x_adv = _project(active, there, gradient, eps, norm)
        gradient, margin, reached = active.gradient(
            x_adv, loss=smooth_margin(active.goal, temperatures(clean, step, options.steps))
        )
        g = active.movable(x_adv, gradient)
        success, size = reached & (margin > 0), sizes(x_adv - active.x, norm)
        best.take(left, x_adv, size, success)
        smallest = best.size[left]
        up, down = (1 + gamma) * eps, (1 - gamma) * torch.minimum(eps, smallest)
        if norm == "l0":
            up, down = (
                torch.maximum(up.floor(), eps + 1),
                torch.minimum(down.floor(), smallest - 1).clamp_min(1),
            )
        else:
            way = _linear(margin.abs(), g, norm)
            up = torch.where(smallest < torch.inf, up, torch.maximum(up, size + way))
            down = down.minimum((size - way).maximum(down / 2))
        eps = (
            torch.where(success, down, up)
            .minimum(smallest - 1 if norm == "l0" else smallest)
            .minimum(largest)
        )
    return problem.project(best.x)


def _linear(gap: Tensor, g: Tensor, norm: str) -> Tensor:
    """(B,) distance to the linearised boundary."""
    return shares(gap, g.flatten(1).norm(p=DUALS[norm], dim=1))


def _direction(g: Tensor, norm: str) -> Tensor:
    if norm == "linf":
        return g.sign()
    size = g.flatten(1).abs().amax(1) if norm == "l0" else sizes(g, "l2")
    return g * expand(shares(torch.ones_like(size), size), g)


def _project(active: Problem, x_adv: Tensor, gradient: Tensor, eps: Tensor, norm: str) -> Tensor:
    """Into the ball of radius eps and into the range."""
    if norm == "l1":
        return project_l1(active.recentred(active.x, BALLS["l1"](eps)), x_adv)
    if norm != "l0":
        return active.clip(active.x + BALLS[norm](eps).project(x_adv - active.x))
    delta = active.clip(x_adv) - active.x
    kept = BALLS["l0"](eps).project((delta * gradient).clamp_min(0)) > 0
    return torch.where(kept, active.x + delta, active.x)
