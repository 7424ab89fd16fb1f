r"""Carlini and Wagner's L0 attack: the L2 attack, repeated on fewer and fewer values. Carlini &
Wagner 2017, section VI-C, https://arxiv.org/abs/1608.04644:

    minimise  || delta ||_2^2 + c * f(x + delta)    over the values that may still change
    i = argmin_i | g_i * delta_i |,  g = grad f(x + delta);
        value i is frozen at x_i, and again, until the L2 attack fails

f is minus the margin of the logits, 0 once the goal is reached. Each search starts from the change found
before, without the frozen values.

Departs from the paper: many values are frozen at once, half of those changed at first; half as many after a
failure, twice as many after a success. A value that cannot be frozen alone is kept and the next one tried; a
sample is finished when all were tried. A sample that still succeeds without the frozen values costs one
gradient and no search; a search is a few large steps, during which c grows. The range is kept by projection,
because tanh freezes values at an end of it. Values are counted one by one: a pixel of a colour picture has
three. On 32 digits, the mean is 7.2 values after 76 gradients for a small network, and 8.6 after 88 for one
trained adversarially. With a budget, a sample is finished once it is inside.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.penalty import Adam, inside, way
from limen.attacks.shared.smallest_change import clean_gradient, clear_margin, room, sizes
from limen.budgets.families.balls import expand

MOST = 1e6
"""c grows to this many times its first value at most."""


class CWL0(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    # its own exact problem is in tests/attacks/test_minimal_classic.py
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"steps": 20, "patience": 2}

    steps: int = Field(default=300, ge=2)
    """Most gradients of one sample, the first at the clean one."""
    learning_rate: float = Field(default=0.3, gt=0)
    """Learning rate of Adam, as a share of the widest change that the range allows."""
    patience: int = Field(default=5, ge=1)
    """Steps of a search without success after which it has failed."""
    c_init: float = Field(default=1.0, gt=0)
    """First c of every search, as a multiple of the one that would suffice if the model were linear."""
    c_growth: float = Field(default=4.0, ge=1)
    """By how much c grows with every step of a search."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@dataclass
class _Search:
    free: Tensor
    """(B, ...) bool: which values may change."""
    use: Tensor
    """(B, ...) | g_i * delta_i | at the smallest success; infinite where a value turned out to be needed."""
    count: Tensor
    """(B,) how many values of the smallest success are frozen."""
    waited: Tensor
    """(B,) steps of this search so far."""
    c: Tensor
    first_c: Tensor
    """(B,) c now, and at the start of a search."""

    def rows(self, keep: Tensor) -> "_Search":
        return _Search(*(getattr(self, f.name)[keep] for f in fields(self)))


@torch.no_grad()
def cw_l0(problem: Problem, options: CWL0) -> Tensor:
    need_classes(problem, "cw_l0")
    best, active, left, gradient, margin = clean_gradient(problem)
    x_adv, success, adam = active.x, torch.zeros_like(left, dtype=torch.bool), Adam(active.x)
    rate = options.learning_rate * room(active, "linf")
    c = 2 * options.c_init * way(active, gradient, margin)
    everything = torch.ones_like(x_adv, dtype=torch.bool)
    search = _Search(
        everything, torch.zeros_like(x_adv), torch.full_like(c, torch.inf), torch.zeros_like(c), c, c
    )
    for _ in range(1, options.steps if len(left) else 0):
        failed = ~success & (best.size[left] < torch.inf) & (search.waited >= options.patience)
        anew = success | failed
        stepped = _step(active, x_adv, gradient, adam, search, rate, options)
        if bool(anew.any()):
            over = _plan(active, search, success, failed, gradient, best.x[left], best.size[left])
            x_adv = torch.where(
                expand(anew, x_adv), torch.where(search.free, best.x[left], active.x), stepped
            )
            adam.restart(anew)
            stay = ~(over | inside(active, best, left))
            if not bool(stay.all()):
                active, left, search, x_adv, rate = (
                    active.rows(stay),
                    left[stay],
                    search.rows(stay),
                    x_adv[stay],
                    rate[stay],
                )
                adam.rows(stay)
                if not len(left):
                    break
        else:
            x_adv = stepped
        gradient, margin, reached = active.gradient(x_adv, loss=clear_margin(active.goal))
        success = reached & (margin > 0)
        best.take(left, x_adv, sizes(x_adv - active.x, "l0"), success)
    return problem.project(best.x)


def _step(
    active: Problem, x_adv: Tensor, gradient: Tensor, adam: Adam, search: _Search, rate: Tensor, options: CWL0
) -> Tensor:
    """One step of Adam on || delta ||^2 + c * f."""
    mean, root = adam.means((2 * (x_adv - active.x) - gradient * expand(search.c, gradient)) * search.free)
    search.c = torch.minimum(options.c_growth * search.c, MOST * search.first_c)
    search.waited = search.waited + 1
    return active.clip(x_adv - expand(rate, mean) * mean / root)


def _plan(
    active: Problem,
    search: _Search,
    success: Tensor,
    failed: Tensor,
    gradient: Tensor,
    x_best: Tensor,
    size: Tensor,
) -> Tensor:
    """Chooses the values to freeze next if a search has ended; returns which samples have tried all."""
    delta = x_best - active.x
    changed, anew = delta != 0, expand(success | failed, delta)
    search.use = torch.where(expand(success, delta), (gradient * delta).abs(), search.use)
    needed = changed & ~search.free & expand(failed & (search.count == 1), delta)
    search.use = search.use.masked_fill(needed, torch.inf)
    fewer = torch.minimum(2 * search.count, (size / 2).floor())
    search.count = torch.where(
        success, fewer, torch.where(failed, (search.count / 2).floor(), search.count)
    ).clamp_min(1)
    order = torch.where(changed, search.use, torch.inf).flatten(1).argsort(dim=1, stable=True)
    frozen = torch.arange(order.shape[1], device=order.device) < search.count[:, None]
    frozen = (
        torch.zeros_like(frozen.expand_as(order)).scatter_(1, order, frozen.expand_as(order)).view_as(delta)
    )
    search.free = torch.where(anew, changed & ~frozen, search.free)
    search.waited = torch.where(success | failed, 0, search.waited)
    search.c = torch.where(success | failed, search.first_c, search.c)
    untried = (changed & (search.use < torch.inf)).flatten(1).any(1)
    return (success | failed) & ((size <= 1) | ~untried)
