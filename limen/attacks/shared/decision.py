"""Shared by decision-based attacks: starting points, and bisection to the boundary."""

from typing import Literal

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import expand
from limen.core.seeds import uniform_like

Norm = Literal["l2", "linf"]
BLENDS = 10
"""Tries with an increasing share of noise, up to pure noise, before pictures of coarser noise are tried."""
GRAINS = (1, 2, 4, 7)
"""Sizes of the blocks of equal pixels or samples in coarser noise, which a network may assign to another
class than fine noise."""
BISECTIONS = 10
"""Bisection steps towards the clean sample: to a thousandth of the distance."""
AT_ONCE = 256
"""Points evaluated in one forward pass."""


def started(problem: Problem, tries: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, ...) a point that reaches the goal, (B,) whether one was found, (B,) number of evaluations.

    Each sample is tried unchanged, then blended with uniform noise, more in each try, then as its negative
    and as black and white noise of random brightness and grain. Other samples are never used as a start:
    rows are independent.
    """
    x_adv, found = problem.x.clone(), problem.reached(problem.x)
    spent = torch.ones(len(problem), dtype=torch.long, device=x_adv.device)
    left = (~found).nonzero().squeeze(1)
    active = problem.rows(left)
    for k in range(tries if len(left) else 0):
        x = _noisy(active, k)
        reached = active.reached(x)
        spent[left] += 1
        x_adv[left[reached]], found[left[reached]] = x[reached], True
        if bool(reached.any()):
            active, left = active.rows(~reached), left[~reached]
            if not len(left):
                break
    return x_adv, found, spent


def on_boundary(problem: Problem, tries: int, norm: Norm, queries: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, ...) a start moved to the boundary, the rows that have one and may be moved further, and (B,)
    number of evaluations."""
    x_adv, found, spent = started(problem, min(tries, queries - 1))
    left = (
        (found & (distance(problem, x_adv, norm) > 0) & (spent + BISECTIONS <= queries)).nonzero().squeeze(1)
    )
    if len(left):
        x_adv[left] = nearer(problem.rows(left), x_adv[left], norm)
        spent[left] += BISECTIONS
    return x_adv, left, spent


def _noisy(active: Problem, k: int) -> Tensor:
    """The k-th try for every row."""
    u = uniform_like(active.x, active.generators, None if active.mask is None else active.lengths)
    share = 2.0 ** ((min(k + 1, BLENDS) - BLENDS) / 2)
    if k >= BLENDS:
        white = uniform_like(active.x.flatten(1)[:, :1], active.generators)
        u = (_coarse(u, GRAINS[k % len(GRAINS)]) < expand(white.squeeze(1), u)).to(u)
    low, high = (torch.as_tensor(end).to(u) for end in (active.low, active.high))
    other = low + high - active.x if k == BLENDS else low + (high - low) * u
    change = share * (other - active.x)
    return active.clip(active.x + (change if active.mask is None else change * active.mask))


def _coarse(u: Tensor, grain: int) -> Tensor:
    """Blocks of `grain` neighbours made equal, in height and width or in time."""
    for axis in range(2 if u.dim() == 4 else 1):
        n = u.shape[-1 - axis]
        u = u.index_select(-1 - axis, torch.arange(n, device=u.device) // grain * grain)
    return u


def between(problem: Problem, x_adv: Tensor, t: Tensor, norm: Norm) -> Tensor:
    """The point whose change is t (B,) times as large: scaled (l2), or clipped (linf)."""
    delta = x_adv - problem.x
    if norm == "l2":
        return problem.x + expand(t, delta) * delta
    most = expand(t * delta.flatten(1).abs().amax(1), delta)
    return problem.x + torch.minimum(delta, most).maximum(-most)


def nearer(problem: Problem, x_adv: Tensor, norm: Norm) -> Tensor:
    """Bisection between each clean sample and `x_adv`, which reaches the goal; the returned points near the
    boundary reach it too."""
    low, high = x_adv.new_zeros(len(x_adv)), x_adv.new_ones(len(x_adv))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = problem.reached(between(problem, x_adv, middle, norm))
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return torch.where(expand(high < 1, x_adv), between(problem, x_adv, high, norm), x_adv)


def distance(problem: Problem, x_adv: Tensor, norm: Norm) -> Tensor:
    """(B,) size of the change."""
    return (x_adv - problem.x).flatten(1).norm(p=2 if norm == "l2" else torch.inf, dim=1)


def reached_at(problem: Problem, points: Tensor) -> Tensor:
    """(B, n, ...) points of every sample -> (B, n) bool."""
    who = torch.arange(len(points), device=points.device).repeat_interleave(points.shape[1])
    parts = zip(who.split(AT_ONCE), points.flatten(0, 1).split(AT_ONCE), strict=True)
    return torch.cat([problem.rows(i).reached(x) for i, x in parts]).view(points.shape[:2])
