r"""Carlini and Wagner's L-inf attack: only what exceeds a bound tau is penalised, and tau shrinks. Carlini &
Wagner 2017, section VI-B, https://arxiv.org/abs/1608.04644:

    minimise  c * f(x + delta) + sum_i max( |delta_i| - tau, 0 )    subject to  low <= x + delta <= high
    tau becomes 0.9 times the largest |delta_i| where that succeeds;
        each search starts from the change found before

f is minus the margin of the logits, 0 once the goal is reached, in units of its steepest slope: c means the
same at any scale of logits.

Departs from the paper: every sample has a tau of its own, which shrinks after any step that succeeds and not
only after a search; it begins at the distance to the linearised boundary instead of at 1, and once a tau has
failed, the next lies halfway to the smallest success. Adam uses the gradient of f alone and the penalty acts
by its proximal step: its slope jumps from 0 to 1 at tau, after which Adam would overshoot and stall. c
doubles when tau can shrink no more (in the paper: when it fails), and a sample is finished after the largest
c. Up to c = 1 no value gains by leaving [-tau, tau]; on two networks for digits a larger c only made changes
larger. The slope of the margin is softened over the other classes (`smooth_margin`). The range is kept by
projection, because tanh freezes values at an end of it. With a budget, a sample is finished once it is
inside.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.penalty import Adam, inside
from limen.attacks.shared.smallest_change import (
    clean_gradient,
    room,
    shares,
    sizes,
    smooth_margin,
    temperatures,
)
from limen.budgets.families.balls import expand

GROWTH = 1.1
"""Smallest factor of tau per step while no success has been found."""


class CWLinf(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(norms=("linf",))
    quick: ClassVar[dict[str, Any]] = {"steps": 12, "patience": 2}

    steps: int = Field(default=150, ge=2)
    """Most gradients of one sample, the first at the clean one."""
    learning_rate: float = Field(default=0.3, gt=0)
    """Learning rate of Adam, as a share of tau."""
    shrink: float = Field(default=0.9, gt=0, lt=1)
    """tau after a success, as a share of the smallest change found."""
    patience: int = Field(default=10, ge=1)
    """Steps in a row without success after which a tau has failed."""
    tolerance: float = Field(default=0.01, gt=0, lt=1)
    """tau can shrink no more when the largest that failed is this close to the smallest success, as a share
    of it."""
    c_init: float = Field(default=0.25, gt=0)
    """First c."""
    c_max: float = Field(default=1.0, gt=0)
    """Largest c; the paper's, in units of the logits, is 20."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@dataclass
class _Bound:
    """(B,) each."""

    tau: Tensor
    failed: Tensor
    """The largest tau that failed."""
    c: Tensor
    waited: Tensor
    """Steps since the last success, or since tau last failed."""

    def rows(self, keep: Tensor) -> "_Bound":
        return _Bound(*(getattr(self, f.name)[keep] for f in fields(self)))


@torch.no_grad()
def cw_linf(problem: Problem, options: CWLinf) -> Tensor:
    need_classes(problem, "cw_linf")
    best, active, left, gradient, margin = clean_gradient(problem)
    x_adv, success, adam = active.x, torch.zeros_like(left, dtype=torch.bool), Adam(active.x)
    clean, largest = margin, room(active, "linf")
    tau = _linear(active, x_adv, gradient, margin).minimum(largest)
    bound = _Bound(tau, torch.zeros_like(tau), torch.full_like(tau, options.c_init), torch.zeros_like(tau))
    for step in range(1, options.steps if len(left) else 0):
        x_adv = _step(active, x_adv, gradient, success, adam, bound, options.learning_rate)
        gradient, margin, reached = active.gradient(
            x_adv, loss=smooth_margin(active.goal, temperatures(clean, step, options.steps))
        )
        success, size = reached & (margin > 0), sizes(x_adv - active.x, "linf")
        best.take(left, x_adv, size, success)
        farther = (size + _linear(active, x_adv, gradient, margin)).minimum(largest)
        stuck = _judge(bound, success, best.size[left], farther, options)
        adam.restart(stuck)
        stay = ~(stuck & (bound.c > options.c_max)) & ~inside(active, best, left)
        if not bool(stay.all()):
            active, left, bound, largest = active.rows(stay), left[stay], bound.rows(stay), largest[stay]
            x_adv, gradient, success, clean = x_adv[stay], gradient[stay], success[stay], clean[stay]
            adam.rows(stay)
            if not len(left):
                break
    return problem.project(best.x)


def _step(
    active: Problem,
    x_adv: Tensor,
    gradient: Tensor,
    success: Tensor,
    adam: Adam,
    bound: _Bound,
    learning_rate: float,
) -> Tensor:
    """A step of Adam on f, then the proximal step of the penalty, which moves values beyond tau back, at most
    to tau."""
    slope = gradient * expand(shares((~success).to(gradient), gradient.flatten(1).abs().amax(1)), gradient)
    mean, root = adam.means(-slope)
    rate, tau = expand(learning_rate * bound.tau, x_adv), expand(bound.tau, x_adv)
    delta = x_adv - rate * mean / root - active.x
    excess = (delta.abs() - tau - rate / expand(bound.c, x_adv) / root).clamp_min(0)
    return active.clip(active.x + delta.sign() * torch.minimum(delta.abs(), tau + excess))


def _judge(bound: _Bound, success: Tensor, smallest: Tensor, farther: Tensor, options: CWLinf) -> Tensor:
    """The next tau and c; returns which tau cannot shrink further."""
    found = smallest < torch.inf
    bound.waited = torch.where(success, 0, bound.waited + 1)
    fails = ~success & (bound.waited >= torch.where(found, options.patience, 1))
    bound.failed = torch.where(fails & found, bound.tau, bound.failed)
    halfway = (bound.failed + smallest) / 2
    smaller = torch.minimum(bound.tau, torch.maximum(options.shrink * smallest, halfway))
    larger = torch.where(found, halfway, torch.maximum(GROWTH * bound.tau, farther))
    bound.tau = torch.where(success, smaller, torch.where(fails, larger, bound.tau))
    bound.waited = torch.where(fails, 0, bound.waited)
    stuck = found & (smallest - bound.failed <= options.tolerance * smallest)
    bound.tau, bound.failed = (
        torch.where(stuck, options.shrink * smallest, bound.tau),
        torch.where(stuck, 0, bound.failed),
    )
    bound.c = torch.where(stuck, 2 * bound.c, bound.c)
    return stuck


def _linear(active: Problem, x_adv: Tensor, gradient: Tensor, margin: Tensor) -> Tensor:
    """(B,) distance to the linearised boundary."""
    return shares(-margin, active.movable(x_adv, gradient).flatten(1).abs().sum(1))
