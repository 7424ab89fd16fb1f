r"""Square attack: random search in squares, from scores only. Andriushchenko et al. 2020,
https://arxiv.org/abs/1912.00049:

    x^{i+1} = z if margin(z) > margin(x^i) else x^i,    z = x^i changed inside a square at a random place

- linf: the square becomes x - eps or x + eps, one sign per channel; the search starts from vertical stripes.
- l2: the square gets a pair of opposite pyramids added, and the budget that a second square gives up; the
  search starts from 5 x 5 of them.
- l1: the same in that norm, with the steeper pyramids of Croce & Hein 2021
  (https://arxiv.org/abs/2103.01208).
- l0: the square moves to an end of the range, and a second one back to the clean sample (not in the paper).

Squares become smaller during the search. Clips have windows of time instead. A recogniser has no margin: its
loss is used instead. Departs from the paper: three points of a sample are evaluated at once, and the best one
counts (`at_once`): one in seven succeeds, so two rarely do, and a network evaluates three times as many in
less than three times the time; a square that is at those ends already moves to the opposite ones (linf; every
second of the small squares of a digit), and a point equal to the best one so far is not evaluated, because
its score is known; samples without prospect of success are given up early (`give_up`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.budget_needs import need_norm
from limen.attacks.shared.give_up import Forecast
from limen.attacks.shared.windows import Windows, grid, pyramids, widths, windows
from limen.budgets.families.balls import L0Ball, expand
from limen.core.seeds import uniform_like

SHRINKS_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Numbers of points, of 10,000, after which the share of the sample that a square covers is halved. Section 4
of the paper."""
BLOCK = 128
"""Points whose random numbers are drawn at once."""
FIRST_LOOK = 100
"""Points after which `give_up` first records the margins."""
FEW = 64
"""Points that are always evaluated in one pass; more only up to two per sample, because all of them need
memory."""


class Square(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    # a random search with few queries
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 12}

    queries: int = Field(default=5000, ge=2)
    """Largest number of evaluations of the model per sample, with those of the clean sample and of the first
    pattern."""
    share: float = Field(default=0.8, gt=0, le=1)
    """Share of the sample that the first squares cover."""
    at_once: int = Field(default=3, ge=1)
    """Points of a sample that are evaluated at once; the best of them counts. The paper uses 1."""
    rescale: bool = True
    """Scale the schedule of shrinking squares to the number of points. If false, it is that of 10,000 points,
    as in AutoAttack."""
    give_up: float = Field(default=8.0, ge=0)
    """Whenever the number of points has doubled, from 200 on, a sample is given up if its margin would still
    be positive at the end even if each further doubling gained this many times as much as the last one; 0:
    never, as in the paper. Classifiers only."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@torch.no_grad()
def square(problem: Problem, options: Square) -> Tensor:
    need_norm(problem, "square", "linf", "l2", "l1", "l0", per_value=True)
    found, active = problem.x.clone(), problem
    rows = torch.arange(len(problem), device=found.device)
    x, loss, moves, ends = (
        found.clone(),
        torch.full_like(problem.ball.radius, -torch.inf),
        None,
        _ends(problem),
    )
    forecast = Forecast(
        options.give_up, options.queries, [FIRST_LOOK * 2**k for k in range(options.queries.bit_length())]
    )
    query, whole = 1, active  # whole: each sample repeated for the points of a round
    _, reached = problem.evaluate(found)
    while query < options.queries:
        done = reached if active.deterministic else torch.zeros_like(reached)
        if options.give_up and problem.model.output == "class":
            done = done | forecast.at(query, -loss)
        if bool(done.any()):
            found[rows[done]] = x[done]
            stay = (~done).nonzero().squeeze(1)
            active, rows, x, loss, ends, forecast = (
                active.rows(stay),
                rows[stay],
                x[stay],
                loss[stay],
                ends[stay],
                forecast.rows(stay),
            )
            whole, moves = active, None if moves is None else moves.rows(stay)
        if not len(rows):
            break
        if query == 1:
            counts, whose, z = [len(rows)], torch.arange(len(rows), device=rows.device), _first(active)
        else:
            n = (query - 2) % BLOCK
            share = options.share / 2 ** sum(
                (query - 2) * (10000 / options.queries if options.rescale else 1) > k for k in SHRINKS_AT
            )
            if moves is None or n == 0:
                moves = _moves(
                    active,
                    uniform_like(x.new_empty(len(x), BLOCK, 5 + grid(x).shape[1]), active.generators),
                    share,
                )
            elif share != moves.share:
                moves = _moves(active, moves.u, share)
            points = range(n, min(n + options.at_once, n + options.queries - query, BLOCK))
            if active.ball.coordinatewise:
                counts, whose, z = _inside(x, moves, points, ends)
            else:
                tries = [_changed(active, x, moves, k) for k in points]
                whose, z = (torch.cat(parts) for parts in zip(*tries, strict=True))
                counts = [len(who) for who, _ in tries]
        query += len(counts)
        reached = torch.zeros_like(rows, dtype=torch.bool)
        if not len(whose):
            continue
        if len(whose) < len(counts) * len(rows):
            repeated = active.rows(whose)
        else:
            repeated = whole = whole if len(whole) == len(whose) else active.rows(whose)
        value, there = _evaluate(repeated, z, max(2 * len(problem), FEW))
        for who, changed, now, arrived in zip(
            *(t.split(counts) for t in (whose, z, value, there)), strict=True
        ):
            i = (((now > loss[who]) | arrived) & ~reached[who]).nonzero().squeeze(1)
            if len(i):  # late in a search nearly all points fail
                x[who[i]], loss[who[i]], reached[who[i]] = changed[i], now[i], arrived[i]
    found[rows] = x
    return found


def _evaluate(repeated: Problem, z: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Margins, or losses, and success at the points z, no more than `most` in one pass."""
    if len(z) > most:
        parts = torch.arange(len(z), device=z.device).chunk(-(-len(z) // most))
        values, there = zip(*(_evaluate(repeated.rows(i), z[i], most) for i in parts), strict=True)
        return torch.cat(values), torch.cat(there)
    return repeated.evaluate(z, repeated.goal.margin if repeated.model.output == "class" else None)


@dataclass(frozen=True)
class _Moves:
    """The next candidate changes of every sample."""

    u: Tensor
    """(B, n, 5 + C) random numbers."""
    share: float
    """Share of the sample that a square covers."""
    one: Windows
    other: Windows
    """L0, L1, L2: window that gives up its budget."""
    up: Tensor
    """(B, n, C, 1) bool: the direction of each channel."""

    def rows(self, keep: Tensor) -> "_Moves":
        return _Moves(self.u[keep], self.share, self.one.rows(keep), self.other.rows(keep), self.up[keep])


def _moves(active: Problem, u: Tensor, share: float) -> _Moves:
    ball, (_, channels, high, wide), width = active.ball, grid(active.x).shape, widths(active)
    side = (
        (share * width).round() if high == 1 else torch.full_like(width, round((share * high * wide) ** 0.5))
    )
    if ball.norm_name == "l0":  # no larger than the budget
        side = side.minimum(
            ball.radius[:, None] if high == 1 else (ball.radius[:, None] / channels).sqrt().floor()
        )
    elif not ball.coordinatewise:  # room for a pair of pyramids
        side = 2 * (side.clamp_min(3) // 2) + 1
    side = side.to(width).clamp_min(1).minimum(width if high == 1 else width.clamp_max(high))
    tall = torch.ones_like(side) if high == 1 else side
    one, other = (windows(u[:, :, k : k + 2], tall, side, high, width, wide) for k in (0, 2))
    return _Moves(u, share, one, other, u[:, :, 5:, None] >= 0.5)


def _ends(problem: Problem) -> Tensor:
    """(B, C, 2 * cells) the least and the most that every value can become, for budgets per value."""
    if not problem.ball.coordinatewise:
        return problem.x
    ends = problem.ball.interval(problem.x)
    return torch.cat([grid(problem.clip(problem.x + end)).flatten(2) for end in ends], 2)


def _inside(x_adv: Tensor, moves: _Moves, points: range, ends: Tensor) -> tuple[list[int], Tensor, Tensor]:
    """Candidates with one square changed, for each of some points: how many candidates each point has, their
    rows, and the candidates. Unchanged ones are left out."""
    x, n = grid(x_adv).flatten(2), slice(points.start, points.stop)
    whole, ends = (t.expand(len(points), *t.shape) for t in (x, ends))  # (points, B, C, cells)
    cells = moves.one.corners[:, n].T[:, :, None, None] + moves.one.offsets[:, None]
    up, here = moves.up[:, n].transpose(0, 1), whole.gather(3, cells.expand(-1, -1, x.shape[1], -1))
    new = ends.gather(3, cells + up * x.shape[2])
    changes = (new != here).flatten(2).any(2)
    if not bool(changes.all()):  # the other way, then
        new = ends.gather(3, cells + (up ^ ~changes[:, :, None, None]) * x.shape[2])
        changes = (new != here).flatten(2).any(2)
    z, i = (
        whole.scatter(3, cells.expand_as(new), new).view(-1, *x_adv.shape[1:]),
        changes.flatten().nonzero().squeeze(1),
    )
    return changes.sum(1).tolist(), i % len(x), z if len(i) == len(z) else z[i]


def _first(active: Problem) -> Tensor:
    """The pattern that the search starts from."""
    x, ball = grid(active.x), active.ball
    if ball.coordinatewise or ball.norm_name == "l0":
        u = uniform_like(x[:, :, :1], active.generators, None if active.mask is None else active.lengths)
        stripes = torch.where(u < 0.5, -1.0, 1.0).to(x).expand_as(x).reshape(active.x.shape)
        stripes = stripes if active.mask is None else stripes * active.mask
        first = ball.spread(stripes) if ball.coordinatewise else stripes
        return active.project(active.clip(active.x + first))
    u = uniform_like(x.new_empty(len(x), x.shape[1], 25), active.generators)
    cells = torch.arange(x.shape[2] * x.shape[3], device=x.device)[None]
    i, j = cells // x.shape[3], cells % x.shape[3]
    side = (widths(active) // 5).clamp_min(1)
    tall = torch.full_like(side, max(1, x.shape[2] // 5))
    pattern = pyramids(
        i % tall,
        j % side,
        tall,
        side,
        torch.zeros_like(side, dtype=torch.bool),
        4 if ball.norm_name == "l1" else 2,
        x.dtype,
    )
    pattern = pattern * ((i < 5 * tall) & (j < 5 * side))
    tile = (i // tall).clamp_max(4) * 5 + (j // side).clamp_max(4)
    signs = torch.where(u < 0.5, -1.0, 1.0).to(x).gather(2, tile[:, None].expand(-1, x.shape[1], -1))
    return active.clip(active.x + ball.fill((pattern[:, None] * signs).view_as(active.x)))


def _changed(active: Problem, x_adv: Tensor, moves: _Moves, n: int) -> tuple[Tensor, Tensor]:
    """The same in the other norms."""
    ball, one, x, clean = active.ball, moves.one, grid(x_adv).flatten(2), grid(active.x).flatten(2)
    channels, signs = x.shape[1], torch.where(moves.up[:, n], 1.0, -1.0).to(x)
    cells, other = (w.cells(n).expand(-1, channels, -1) for w in (one, moves.other))
    delta, mine = x - clean, one.valid
    rest = delta.scatter(2, other, 0.0).scatter_(2, cells, 0.0)
    if ball.norm_name == "l0":
        z = active.project(
            active.clip((clean + rest.scatter_add_(2, cells, signs * L0Ball.reach * mine)).view_as(x_adv))
        )
    else:
        p, tiny = 1 if ball.norm_name == "l1" else 2, torch.finfo(x.dtype).tiny
        mass = lambda t: t.abs().pow(p).sum(2, keepdim=True)
        before = mass(delta)
        free = (ball.radius**p - before.sum((1, 2))).clamp_min(0) / channels
        pattern = (
            pyramids(one.i, one.j, one.tall, one.side, moves.u[:, n, 4:5] < 0.5, 2 * (3 - p), x.dtype)[
                :, None
            ]
            * mine
        )
        new = signs * pattern / mass(pattern).pow(1 / p).clamp_min(tiny)
        old = delta.gather(2, cells) * mine
        new = new + old / mass(old).pow(1 / p).clamp_min(tiny)
        new = new * ((expand(free, x) + before - mass(rest)).clamp_min(0) / mass(new).clamp_min(tiny)).pow(
            1 / p
        )
        z = active.clip(active.x + ball.fill(rest.scatter_add_(2, cells, new)).view_as(x_adv))
    i = (z != x_adv).flatten(1).any(1).nonzero().squeeze(1)
    return i, z if len(i) == len(z) else z[i]
