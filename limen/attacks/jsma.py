r"""Saliency map attack: changes two values at a time, those that raise the wanted logit and lower its rival
most. Papernot et al. 2016, https://arxiv.org/abs/1511.07528:

    alpha(p, q) = sum_{i in {p, q}} dZ_t / dx_i,    beta(p, q) = sum_{i in {p, q}} sum_{j != t} dZ_j / dx_i
    (p, q)      = argmax { -alpha * beta : alpha > 0, beta < 0 },    x_p, x_q <- clip( x + theta )

until the model predicts t or a share gamma of all values has changed; with theta < 0 the signs of alpha and
beta are reversed.

Departs from the paper: beta is the gradient of the highest other logit, as computed one step before, and not
of the sum of all others; each derivative is multiplied by the distance that its value can still move; a pair
may also be one value up and one down (`direction: both`), and no value moves back; if no pair has alpha > 0
and beta < 0, the one with the largest alpha - beta is used; a last odd value moves alone. An untargeted
attack away from a class y uses the highest other class as t and y as its rival. On 64 digits and two small
networks (standard, adversarially trained) the median is 8 and 14 changed pixels; 16 and 40 with the sum of
all others and without regard to the remaining distance.

The search over all pairs is exact and needs no n^2 memory: if two values are both at least as good as p in
alpha and in beta, one of them can replace p in any pair, so only values with at most one better value can be
in the best pair. They are the first two Pareto fronts of (alpha, -beta), a few dozen values; if there are
more than 512, the most salient 512 are searched.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.smallest_change import Smallest, clear_margin, shares, sizes
from limen.budgets.families.balls import expand
from limen.core.errors import UserError
from limen.goals.base.goal import Goal

MOST = 512


VALUES = 784
"""Values of a sample for which the cost is declared: a picture of 28 x 28 pixels."""


class JSMA(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    # counts values; its own exact problem is in tests/attacks/test_sparse.py
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"gamma": 0.1}

    theta: float = Field(default=1.0, gt=0, le=1)
    """How far a value moves in one step, as a share of the range; 1: to its end."""
    gamma: float = Field(default=0.145, gt=0, le=1)
    """Largest share of the values that may change, at least one. An l0 budget below it replaces it; a budget
    per value (linf, local_linf) bounds each."""
    direction: Literal["up", "down", "both"] = "both"
    """Whether values rise, fall, or either."""

    def cost(self, classes: int | None = None) -> float:
        return self.gamma * VALUES / self.theta  # two gradients move two values


@torch.no_grad()
def jsma(problem: Problem, options: JSMA) -> Tensor:
    need_classes(problem, "jsma")
    if type(problem.goal) is not Goal:
        raise UserError(
            "The attack jsma needs a goal about one class: untargeted, target_class or least_likely."
        )
    logits, best = problem.outputs(problem.x), Smallest.of(problem)
    assert isinstance(logits, Tensor)
    reached = problem.goal.reached(logits)
    best.size[reached] = 0
    left = (~reached).nonzero().squeeze(1)
    active, x, logits, limit = (
        problem.rows(left),
        problem.x[left],
        logits[left],
        _limit(problem, options)[left],
    )
    while len(left):
        rise, fall = _rivals(active.goal, logits)
        logits, slopes = active.input_gradients(x, torch.stack([rise, fall], 1))
        success, size = clear_margin(active.goal)(logits) > 0, sizes(x - active.x, "l0")
        best.take(left, x, size, success)
        moved, found = _moved(active, x, slopes, limit - size, options)
        stay = found & ~success if active.deterministic else found
        active, left, x, logits, limit = active.rows(stay), left[stay], moved[stay], logits[stay], limit[stay]
    return problem.project(best.x)


def _limit(problem: Problem, options: JSMA) -> Tensor:
    """(B,) how many values may change."""
    real = (
        torch.ones_like(problem.x)
        if problem.mask is None
        else problem.mask.to(problem.x).expand_as(problem.x)
    )
    budget = problem.budget
    share = (options.gamma * real.flatten(1).sum(1)).floor().clamp_min(1)
    return share.minimum(budget.radius) if budget is not None and budget.norm_name == "l0" else share


def _rivals(goal: Goal, logits: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) the class whose logit should rise and the one whose should fall."""
    other = logits.scatter(1, goal.reference[:, None], -torch.inf).argmax(1)
    return (goal.reference, other) if goal.targeted else (other, goal.reference)


def _moved(active: Problem, x: Tensor, slopes: Tensor, more: Tensor, options: JSMA) -> tuple[Tensor, Tensor]:
    """The most salient pair moved, and (B,) whether there is one; `more` (B,) values may still join those
    that have changed."""
    high, low = (active.clip(torch.full_like(x, end)) for end in (torch.inf, -torch.inf))
    theta, change = options.theta * (high - low), x - active.x
    if active.budget is not None and active.budget.coordinatewise:
        least, most = active.budget.interval(x)
        high, low = high.minimum(active.x + most), low.maximum(active.x + least)
    up, down = (x + theta).minimum(high), (x - theta).maximum(low)
    ends = {"up": [up], "down": [down], "both": [up, down]}[options.direction]
    joins = expand(more > 0, x) | (change != 0)
    far = [
        torch.where(joins & ((end - x) * change >= 0), end - x, 0).flatten(1) for end in ends
    ]  # no value moves back
    alpha, minus_beta = (torch.cat([f * g.flatten(1) for f in far], 1) for g in (slopes[:, 0], -slopes[:, 1]))
    pair, found = best_pair(alpha, minus_beta, more == 1)
    picked = torch.zeros_like(alpha, dtype=torch.bool).scatter_(1, pair, True) & found[:, None]
    for end, chosen in zip(ends, picked.chunk(len(ends), 1), strict=True):
        x = torch.where(chosen.view_as(x), end, x)
    return x, found


def best_pair(a: Tensor, b: Tensor, alone: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n) twice, and (B,) where one value moves alone -> (B, 2) the two with the largest (a_p + a_q) *
    (b_p + b_q), both sums positive, or else with the largest sum of all four, if that is positive; and (B,)
    whether there are such. Of a value alone both are the same, and so where there is no second. Values with a
    = b = 0 take no part."""
    free, largest = (a != 0) | (b != 0), torch.maximum(a.abs().amax(1), b.abs().amax(1))
    a, b = (
        torch.where(free, v * shares(torch.ones_like(largest), largest)[:, None], -torch.inf) for v in (a, b)
    )
    candidates = _fronts(a, b)
    width = min(MOST, max(1, int(candidates.sum(1).max())))
    places = torch.where(candidates, a.clamp_min(0) * b.clamp_min(0), -1).topk(width, dim=1).indices
    a, b = (torch.where(candidates, v, -torch.inf).gather(1, places) for v in (a, b))
    alone = (alone | (free.sum(1) == 1))[:, None]
    score, pair = a.new_full((len(a),), -torch.inf), places[:, :1].expand(-1, 2)
    for k in range(width):  # column k with those before it, or with itself: a value alone
        itself = torch.arange(k + 1, device=a.device) == k
        values = _score(a[:, : k + 1] + a[:, k : k + 1], b[:, : k + 1] + b[:, k : k + 1])
        value, j = values.masked_fill(itself != alone, -torch.inf).max(1)
        better = value > score
        score = torch.where(better, value, score)
        pair = torch.where(
            better[:, None], torch.stack([places.gather(1, j[:, None]).squeeze(1), places[:, k]], 1), pair
        )
    return pair, score > -torch.inf


def _score(a: Tensor, b: Tensor) -> Tensor:
    """Values that raise the one logit and lower the other (a and b positive) are ranked before all others."""
    return torch.where((a > 0) & (b > 0), a * b, torch.where(a + b > 0, -1 / (a + b), -torch.inf))


def _fronts(a: Tensor, b: Tensor) -> Tensor:
    """(B, n) bool: the first two Pareto fronts of (a, b)."""
    order = a.argsort(dim=1, descending=True, stable=True)
    kept, rest = torch.zeros_like(order, dtype=torch.bool), b.gather(1, order)
    for _ in range(2):
        before = torch.cat([torch.full_like(rest[:, :1], -torch.inf), rest[:, :-1]], 1).cummax(1).values
        front = rest > before
        kept |= front
        rest = rest.masked_fill(front, -torch.inf)
    return torch.zeros_like(kept).scatter_(1, order, kept)
