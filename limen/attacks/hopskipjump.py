r"""HopSkipJump: gradient estimates at the boundary that use only decisions of the model. Chen et al. 2020,
https://arxiv.org/abs/1904.02144:

    x_t on the boundary;   g_t = 1/n sum_b ( phi_b - mean phi ) u_b,
        phi_b = +-1: does x_t + delta u_b reach the goal or not
    x_{t+1} = bisection between x and x_t + xi_t v,   v = g / ||g||_2 or sign(g),
        xi_t = ||x_t - x|| / sqrt(t), halved until it reaches

with n = probes * sqrt(t). Departs from the paper: the boundary turns little between two steps, so a share
`memory` of the last direction is added to the new one, and fewer probes do (on the robust network of
docs/benchmarks.md, 2,000 evaluations: median L2 3.07, the paper's way 3.31); bisection ends at a thousandth
of the distance, and probes are longer to match. A start is sought in noise (see
`limen/attacks/shared/decision.py`); a sample for which no noise reaches the goal, as is common of targets,
is returned unchanged.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.decision import BISECTIONS, Norm, distance, nearer, on_boundary, reached_at
from limen.budgets.families.balls import expand
from limen.core.seeds import normal_like

BLOCK = 10
"""Probes of a sample drawn together, for any batch size."""
FEW = 4
"""Evaluations reserved for the step if the probes would use all."""
HALVINGS = 20
"""Largest number of halvings of a step; then the sample is not moved."""


class HopSkipJump(AttackOptions):
    minimal: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60}

    norm: Norm = "l2"
    """Norm of the change that is kept small."""
    queries: int = Field(default=5000, ge=1)
    """Largest number of evaluations of the model per sample."""
    probes: int = Field(default=30, ge=1)
    """Probes n of the first step; later ones take sqrt(t) times as many. The paper takes 100."""
    memory: float = Field(default=0.8, ge=0)
    """Share of the last direction that is kept; the paper keeps none."""
    start_tries: int = Field(default=100, ge=0)
    """Largest number of noise samples tried as a start."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@torch.no_grad()
def hopskipjump(problem: Problem, options: HopSkipJump) -> Tensor:
    norm, queries = options.norm, options.queries // problem.draws
    best, left, spent = on_boundary(problem, options.start_tries, norm, queries)
    least = distance(problem, best, norm)
    active, x_t, g, spent, t = problem.rows(left), best[left], torch.zeros_like(best[left]), spent[left], 0
    while len(left):
        room = queries - spent - BISECTIONS - FEW
        if not bool((stay := room >= BLOCK).all()):
            active, left, x_t, g, spent = (active.rows(stay), *(v[stay] for v in (left, x_t, g, spent)))
            continue
        t += 1
        blocks = room.clamp_max(int(options.probes * t**0.5)).div(BLOCK, rounding_mode="floor").clamp_min(1)
        size = distance(active, x_t, norm)
        g = options.memory * g + _unit(_direction(active, x_t, _probe_size(active, size, norm), blocks))
        spent = spent + blocks * BLOCK
        x_t, tries = _stepped(
            active, x_t, _unit(g) if norm == "l2" else g.sign(), size / t**0.5, queries - BISECTIONS - spent
        )
        x_t, spent = nearer(active, x_t, norm), spent + tries + BISECTIONS
        size = distance(active, x_t, norm)
        i = (size < least[left]).nonzero().squeeze(1)
        best[left[i]], least[left[i]] = x_t[i], size[i]
    return problem.project(best)


def _probe_size(active: Problem, size: Tensor, norm: Norm) -> Tensor:
    """(B,) delta: so that a probe crosses the boundary about as far as bisection left it from there."""
    d = active.x[0].numel() if active.lengths is None else active.lengths.to(size)
    return size * 2.0**-BISECTIONS * d ** (0.5 if norm == "l2" else 1.0)


def _direction(active: Problem, x_t: Tensor, delta: Tensor, blocks: Tensor) -> Tensor:
    """(B, ...) towards the goal, from blocks (B,) times BLOCK probes."""
    plain, signed, yes = torch.zeros_like(x_t), torch.zeros_like(x_t), torch.zeros_like(delta)
    rows, part = torch.arange(len(x_t), device=x_t.device), active
    for k in range(int(blocks.max())):
        if not bool((stay := blocks[rows] > k).all()):
            rows, part = rows[stay], part.rows(stay)
        like = part.x[:, None].expand(-1, BLOCK, *part.x.shape[1:])
        lengths = None if part.mask is None else part.lengths
        u = normal_like(like, part.generators, lengths)
        u /= u.flatten(2).norm(dim=2).view(*u.shape[:2], *[1] * (x_t.dim() - 1))
        start, size = x_t[rows][:, None], delta[rows].view(-1, *[1] * x_t.dim())
        points = part.clip((start + size * u).flatten(0, 1)).view_as(u)
        reached = reached_at(part, points)
        u = (points - start) / size  # use the change that was evaluated, after the range cut it off
        phi = 2 * reached.to(u) - 1
        plain[rows] += u.sum(1)
        signed[rows] += (phi.view(*phi.shape, *[1] * (x_t.dim() - 1)) * u).sum(1)
        yes[rows] += phi.sum(1)
    mean = yes / (blocks * BLOCK)
    # if all probes agree there is nothing to compare: move along their mean, or against it
    return signed - expand(torch.where(mean.abs() < 1, mean, 0), x_t) * plain


def _stepped(active: Problem, x_t: Tensor, way: Tensor, size: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
    """x_t moved along `way`, with the step halved until the goal is reached, and the number of tries."""
    x, tries = x_t.clone(), torch.zeros_like(room)
    left = torch.arange(len(x), device=x.device)
    for halving in range(HALVINGS):
        left = left[room[left] > halving]
        if not len(left):
            break
        part = active.rows(left)
        there = part.clip(x_t[left] + expand(size[left] / 2**halving, x_t) * way[left])
        reached = part.reached(there)
        tries[left] += 1
        x[left[reached]] = there[reached]
        left = left[~reached]
    return x, tries


def _unit(g: Tensor) -> Tensor:
    """Scaled to length 1 per sample; zero stays zero."""
    size = g.flatten(1).norm(dim=1)
    return g / expand(torch.where(size > 0, size, 1), g)
