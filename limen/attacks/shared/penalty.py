"""Shared by attacks that minimise the size of a change plus c times a penalty for not reaching the goal: the
search over c, Adam, and when a sample is finished."""

from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.shared.smallest_change import Smallest, shares, sizes
from limen.budgets.families.balls import expand

FLOOR = 1e-4
"""Share of the largest root mean square slope of a sample that is added to all of them. With Adam's usual
1e-8, a value whose slope is a rounding error moves as far as any other, and the sign of that error depends on
the size of the batch."""


@dataclass
class Weights:
    """One c per sample: ten times more after a failure, halfway between the last failure and the last success
    afterwards."""

    c: Tensor
    low: Tensor
    """(B,) the largest that failed."""
    high: Tensor
    """(B,) the smallest that succeeded."""

    @staticmethod
    def of(c: Tensor) -> "Weights":
        return Weights(c, torch.zeros_like(c), torch.full_like(c, torch.inf))

    def judge(self, succeeded: Tensor, rows: Tensor | None = None) -> None:
        """The next c of all samples or of some `rows`, after this one has succeeded or not."""
        i = torch.arange(len(self.c), device=self.c.device) if rows is None else rows
        self.high[i[succeeded]], self.low[i[~succeeded]] = self.c[i[succeeded]], self.c[i[~succeeded]]
        low, high = self.low[i], self.high[i]
        self.c[i] = torch.where(high < torch.inf, (low + high) / 2, 10 * low)

    def rows(self, keep: Tensor) -> "Weights":
        return Weights(self.c[keep], self.low[keep], self.high[keep])


class Adam:
    """Kingma & Ba 2015, https://arxiv.org/abs/1412.6980, with a count of steps per sample, so that each can
    start anew."""

    def __init__(self, like: Tensor):
        self.first, self.second, self.made = (
            torch.zeros_like(like),
            torch.zeros_like(like),
            like.new_zeros(len(like)),
        )

    def means(self, slope: Tensor) -> tuple[Tensor, Tensor]:
        """(B, ...) the mean slope and the root of the mean square one, this one included; a step is the one
        over the other."""
        self.made += 1
        self.first.mul_(0.9).add_(slope, alpha=0.1)
        self.second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        root = (self.second / expand(1 - 0.999**self.made, slope)).sqrt_()
        floor = (FLOOR * root.flatten(1).amax(1)).clamp_min(torch.finfo(slope.dtype).tiny)
        return self.first / expand(1 - 0.9**self.made, slope), root.add_(expand(floor, slope))

    def restart(self, who: Tensor) -> None:
        """Resets the moments and the count of the samples (B,) bool."""
        for kept in (self.first, self.second, self.made):
            kept[who] = 0

    def rows(self, keep: Tensor) -> None:
        self.first, self.second, self.made = self.first[keep], self.second[keep], self.made[keep]


def way(active: Problem, gradient: Tensor, margin: Tensor) -> Tensor:
    """(B,) factor of the gradient at the clean samples that gives the shortest step to the boundary in L2 if
    the model were linear."""
    norm = sizes(active.movable(active.x, gradient), "l2")
    return shares(shares(-margin, norm), norm)  # the square of a small norm would vanish


def inside(active: Problem, best: Smallest, rows: Tensor) -> Tensor:
    """(B,) bool: samples inside the budget, if there is one, which are finished."""
    if active.budget is None or not active.deterministic:
        return torch.zeros(len(rows), dtype=torch.bool, device=active.x.device)
    return (best.size[rows] < torch.inf) & (
        active.budget.norm(best.x[rows] - active.x) <= active.budget.radius
    )
