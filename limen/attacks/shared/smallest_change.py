"""Shared by minimal-norm attacks: the smallest change found so far, and a margin whose sign is safe from
rounding."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.shared.losses import softened
from limen.budgets.families.balls import Ball, L0Ball, L1Ball, L2Ball, LinfBall
from limen.core.types import Outputs
from limen.goals.base.goal import Goal

BALLS: dict[str, type[Ball]] = {"l0": L0Ball, "l1": L1Ball, "l2": L2Ball, "linf": LinfBall}
DUALS = {"l0": torch.inf, "l1": torch.inf, "l2": 2.0, "linf": 1.0}
"""Norm of the change -> the p of the dual norm, that of gradients."""
ROUNDING = 64
"""Logits of one sample in batches of different sizes differ by less than this multiple of the float's eps
times the largest of them."""


def rounding_margin(logits: Tensor) -> Tensor:
    """(B,) bound on the rounding error of the margin."""
    return ROUNDING * torch.finfo(logits.dtype).eps * logits.detach().abs().amax(1)


def clear_margin(goal: Goal) -> Callable[[Outputs], Tensor]:
    """The goal's margin minus its rounding error: positive only if a pass in a batch of another size gives
    the same answer."""

    def measure(logits: Outputs) -> Tensor:
        assert isinstance(logits, Tensor)
        return goal.margin(logits) - rounding_margin(logits)

    return measure


def smooth_margin(goal: Goal, temperature: Tensor) -> Callable[[Outputs], Tensor]:
    """The clear margin with a gradient over all other classes; `temperature` holds one T per sample."""
    if type(goal) is not Goal:
        return clear_margin(goal)  # goals that compare something else than one class with the others

    def measure(logits: Outputs) -> Tensor:
        assert isinstance(logits, Tensor)
        return softened(logits, goal, clear_margin(goal)(logits), temperature)

    return measure


SOFTNESS = 0.2
"""First temperature, as a share of the clean sample's margin: logits of any scale are treated alike. It falls
to a thirtieth."""


def temperatures(margin: Tensor, step: int, steps: int) -> Tensor:
    """(B,) of clean margins -> (B,) for `smooth_margin`."""
    return annealed(step, steps, SOFTNESS, SOFTNESS / 30) * margin.abs().clamp_min(
        torch.finfo(margin.dtype).tiny ** 0.5
    )


@torch.no_grad()
def clearly_reached(problem: Problem, x_adv: Tensor) -> Tensor:
    """(B,) bool, by one forward pass: whether the goal is reached by more than the rounding error."""
    measure = clear_margin(problem.goal)
    return torch.stack([measure(problem.outputs(x_adv)) > 0 for _ in range(problem.draws)]).all(0)


def sizes(delta: Tensor, norm: str) -> Tensor:
    """(B, ...) -> (B,)."""
    return BALLS[norm](delta.new_zeros(len(delta))).norm(delta)


@dataclass
class Smallest:
    """The smallest change of every sample that reaches the goal, or the last one tried."""

    x: Tensor
    size: Tensor
    """(B,); infinite where none was found."""

    @staticmethod
    def of(problem: Problem) -> "Smallest":
        return Smallest(problem.x.clone(), problem.x.new_full((len(problem),), torch.inf))

    def take(self, rows: Tensor, x_adv: Tensor, size: Tensor, success: Tensor) -> None:
        """Update the samples `rows` with successes smaller than before, or with any point while none has
        succeeded."""
        # rounding must not choose between two points of equal size
        tie = 1 - ROUNDING * torch.finfo(size.dtype).eps
        smaller = success & (size < tie * self.size[rows])
        i = (smaller | (self.size[rows] == torch.inf)).nonzero().squeeze(1)
        self.x[rows[i]] = x_adv[i]
        self.size[rows[i]] = torch.where(smaller, size, torch.inf)[i]


def clean_gradient(problem: Problem) -> tuple[Smallest, Problem, Tensor, Tensor, Tensor]:
    """One pass at the clean samples. Those that reach the goal are finished, at distance 0; of the others:
    the problem, their row numbers, the gradients of the margin and the margins."""
    best = Smallest.of(problem)
    gradient, margin, reached = problem.gradient(problem.x, loss=clear_margin(problem.goal))
    best.size[reached] = 0
    left = (~reached).nonzero().squeeze(1)
    return best, problem.rows(left), left, gradient[left], margin[left]


def annealed(step: int, steps: int, first: float, last: float) -> float:
    """From `first` to `last` along half a cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * step / steps)) / 2


def shares(values: Tensor, of: Tensor) -> Tensor:
    """values / of, and 0 where the denominator is 0."""
    return torch.where(of > 0, values / torch.where(of > 0, of, 1), 0)


def room(problem: Problem, norm: str) -> Tensor:
    """(B,) the size of the largest change that the range allows."""
    high, low = (problem.clip(torch.full_like(problem.x, end)) for end in (torch.inf, -torch.inf))
    return sizes(torch.maximum(high - problem.x, problem.x - low), norm)
