r"""Zeroth-order optimisation: Carlini and Wagner's L2 attack from scores only. Chen et al. 2017,
https://arxiv.org/abs/1708.03999:

    minimise  || delta ||_2^2 + c * max( kappa - margin(x + delta), 0 )
    by Adam on `coordinates` pixels at a time, whose slopes are ( f(x + h e_i) - f(x - h e_i) ) / (2 h)

Pixels are drawn by importance: half of them anywhere, half where delta is large nearby. A recogniser has no
margin: the loss of the goal is used instead until the goal is reached. Departs from the authors' code, which
uses a hundred times more evaluations: c is not searched by bisection but grows while no probe reaches the
goal, the faster the fewer steps there are, and falls while one does; Adam's rate shrinks linearly after the
first success; the slope of the norm is exact, only the other term is probed; the range is kept by projection,
because tanh freezes pixels at the ends of it; a probe that reaches the goal is a success, so the point itself
is not evaluated; the smallest success is finally moved towards the clean sample by bisection.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.decision import BISECTIONS, nearer
from limen.attacks.shared.score_estimates import BLOCK, scored
from limen.core.seeds import uniform_like

HASTE, CARE = 1e4, 1.05
"""How much larger c has become after half of the steps if no probe has reached the goal until then (at least
a fifth larger in a step); and by how much it grows or falls in a step afterwards."""
FEWEST = 8
"""Smallest number of steps: with few evaluations, fewer coordinates are probed in each."""
NEARBY = 3
"""Side of the neighbourhood whose largest change makes a pixel important."""


class ZOO(AttackOptions):
    minimal: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60}

    queries: int = Field(default=20000, ge=3)
    """Largest number of evaluations of the model per sample. Eleven of them are used for the clean sample and
    the final bisection, so fewer than 13 change nothing."""
    coordinates: int = Field(default=128, ge=1)
    """Largest number of pixels (of one colour) or samples probed in one step; each costs two evaluations."""
    c_init: float = Field(default=1.0, gt=0)
    """First c."""
    learning_rate: float = Field(default=0.2, gt=0)
    """Learning rate of Adam, in input units. The paper uses 0.01 and a hundred times more evaluations."""
    h: float = Field(default=0.01, gt=0)
    """Length of a probe, in input units. The paper takes 0.0001."""
    confidence: float = Field(default=0.0, ge=0)
    """Margin kappa of the logits that counts as success. Recognisers ignore it."""
    importance: bool = True
    """Draw half of the pixels where the change is large; if false, all are drawn uniformly."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@dataclass
class _Walk:
    """Everything that is kept of each sample: flat (B, d), and the smallest change found."""

    delta: Tensor
    first: Tensor
    second: Tensor
    """Adam's moments."""
    made: Tensor
    """Steps of each coordinate."""
    best: Tensor
    """(B,) size of the smallest change that reaches the goal."""
    found: Tensor
    """(B, d) that change."""


@torch.no_grad()
def zoo(problem: Problem, options: ZOO) -> Tensor:
    x_adv = problem.x.clone()
    left = (~problem.reached(problem.x)).nonzero().squeeze(1)
    if not len(left):
        return x_adv
    active, zero = problem.rows(left), torch.zeros_like(problem.x[left].flatten(1))
    walk = _Walk(
        zero.clone(),
        zero.clone(),
        zero.clone(),
        zero.clone(),
        zero.new_full((len(left),), torch.inf),
        zero.clone(),
    )
    c = zero.new_full((len(left),), options.c_init)
    coordinates, steps = _plan(problem, options)
    found_at, haste = torch.zeros_like(c), max(1.2, HASTE ** (2 / max(steps, 1)))
    for step in range(steps):
        rate = options.learning_rate * (steps - step) / (steps - found_at)
        reached = _step(active, walk, c, rate, coordinates, options)
        seeking = walk.best == torch.inf
        found_at[seeking] = step + 1  # the rate shrinks only from the first success on
        c = c * torch.where(seeking, haste, torch.where(reached, 1 / CARE, CARE))
    x_adv[left] = active.clip(
        active.x + torch.where((walk.best < torch.inf)[:, None], walk.found, walk.delta).view_as(active.x)
    )
    there = left[walk.best < torch.inf]
    if len(there):
        x_adv[there] = nearer(problem.rows(there), x_adv[there], "l2")
    return problem.project(x_adv)


def _plan(problem: Problem, options: ZOO) -> tuple[int, int]:
    """How many coordinates a step probes, and how many steps there are: a small number of evaluations is not
    used for one or two large steps, nor for probing a coordinate of a small picture several times."""
    pairs = max(0, options.queries // problem.draws - 1 - BISECTIONS) // 2
    # the lengths of clips must not matter: a clip gets the same result alone and in a batch
    there_are = problem.x[0].numel() if problem.lengths is None else options.coordinates
    coordinates = max(1, min(options.coordinates, there_are, pairs // FEWEST))
    return coordinates, pairs // coordinates


def _step(active: Problem, walk: _Walk, c: Tensor, rate: Tensor, coordinates: int, options: ZOO) -> Tensor:
    """One step of Adam on the drawn coordinates; returns which samples reached the goal."""
    where = _drawn(active, walk.delta, coordinates, options.importance)
    slope, seen, succeeded = (
        torch.zeros_like(walk.delta),
        torch.zeros_like(walk.delta),
        torch.zeros_like(c, dtype=torch.bool),
    )
    for at in where.split(BLOCK, dim=1):
        ends = _ends(active, walk.delta, at, options.h)  # (B, 2 n, d) points
        n = at.shape[1]
        value, reached = scored(active, ends.view(len(c), 2 * n, *active.x.shape[1:]))
        if active.model.output == "class":
            short, good = (options.confidence - value).clamp_min(0), reached & (value >= options.confidence)
        else:
            short, good = torch.where(reached, 0, -value), reached
        here = torch.cat([at, at], 1)[..., None]
        apart = ends.gather(2, here).squeeze(2)
        apart = apart[:, :n] - apart[:, n:]
        along = ((short[:, :n] - short[:, n:]) / torch.where(apart > 0, apart, 1)).nan_to_num(
            0.0, 0.0, 0.0
        ) * (apart > 0)
        slope.scatter_(1, at, along)
        seen.scatter_(1, at, 1.0)
        succeeded |= good.any(1)
        _keep(active, walk, ends, good)
    g = (2 * walk.delta + c[:, None] * slope) * seen
    walk.made += seen
    walk.first = torch.where(seen > 0, 0.9 * walk.first + 0.1 * g, walk.first)
    walk.second = torch.where(seen > 0, 0.999 * walk.second + 0.001 * g.square(), walk.second)
    made = walk.made.clamp_min(1)
    down = walk.first / (1 - 0.9**made) / (walk.second / (1 - 0.999**made)).sqrt().add_(1e-8)
    x = active.x + (walk.delta - rate[:, None] * down * seen).view_as(active.x)
    walk.delta = (active.clip(x) - active.x).flatten(1)
    return succeeded


def _drawn(active: Problem, delta: Tensor, m: int, importance: bool) -> Tensor:
    """(B, m) which coordinates: one from each of m equal parts of the probability, so that few are drawn
    twice."""
    p = (torch.ones_like(delta) if active.mask is None else active.mask.flatten(1)).double()
    p = p / p.sum(1, keepdim=True)
    if importance:
        size = delta.abs().view_as(active.x)
        pool = (
            F.max_pool2d(size, NEARBY, 1, NEARBY // 2)
            if size.dim() == 4
            else F.max_pool1d(size, NEARBY, 1, NEARBY // 2)
        )
        near = pool.flatten(1).double() * (p > 0)
        total = near.sum(1, keepdim=True)
        p = torch.where(total > 0, 0.5 * p + 0.5 * near / torch.where(total > 0, total, 1), p)
    u = uniform_like(p.new_zeros(len(p), m), active.generators)
    parts = (torch.arange(m, device=p.device) + u) / m
    edges = p.cumsum(1)
    return torch.searchsorted(edges / edges[:, -1:], parts).clamp_max(p.shape[1] - 1)


def _ends(active: Problem, delta: Tensor, at: Tensor, h: float) -> Tensor:
    """(B, 2 n, d) both probes of each coordinate, within the range; the upper ones first."""
    points = (active.x.flatten(1) + delta)[:, None].repeat(1, 2 * at.shape[1], 1)
    offset = torch.cat([torch.full_like(at, 1), torch.full_like(at, -1)], 1).to(delta) * h
    points.scatter_add_(2, torch.cat([at, at], 1)[..., None], offset[..., None])
    return active.clip(points.view(-1, *active.x.shape[1:])).view_as(points)


def _keep(active: Problem, walk: _Walk, ends: Tensor, good: Tensor) -> None:
    """The smallest change among probes that reach the goal, if it is smaller than what was found before."""
    change = ends - active.x.flatten(1)[:, None]
    size, which = change.norm(dim=2).masked_fill(~good, torch.inf).min(1)
    i = (size < walk.best).nonzero().squeeze(1)
    walk.best[i], walk.found[i] = size[i], change[i, which[i]]
