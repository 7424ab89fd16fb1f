"""Shared by attacks that use the model's scores but not its gradients: scores of many points, and gradient
estimates from probes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.core.seeds import normal_like, uniform_like

Draw = Callable[[Problem, int], Tensor]
"""(problem, n) -> (B, n, ...) random directions."""

AT_ONCE = 256
"""Points evaluated in one forward pass."""
BLOCK = 10
"""Directions of a sample probed together, for any batch size."""


def scored(problem: Problem, points: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, ...) points of every sample -> (B, n) values, which the attacker maximises, and (B, n) whether
    each reaches the goal.

    The value is the margin of a classifier, which does not saturate, or the goal's loss. For a model that
    draws at random it is the mean over draws, and the goal is reached if all draws agree."""
    who = torch.arange(len(points), device=points.device).repeat_interleave(points.shape[1])
    parts = [
        _look(problem.rows(i), x)
        for i, x in zip(who.split(AT_ONCE), points.flatten(0, 1).split(AT_ONCE), strict=True)
    ]
    value, reached = (torch.cat(part).view(points.shape[:2]) for part in zip(*parts, strict=True))
    return value.nan_to_num(-torch.inf), reached


def _look(problem: Problem, x: Tensor) -> tuple[Tensor, Tensor]:
    measure = problem.goal.margin if problem.model.output == "class" else problem.goal.loss
    values, votes = [], []
    for _ in range(problem.draws):
        outputs = problem.outputs(x)
        values.append(problem.measured(measure, outputs).to(x))
        votes.append(problem.confirmed(outputs, x))
    return torch.stack(values).mean(0), torch.stack(votes).all(0)


@dataclass
class Probed:
    gradient: Tensor
    """(B, ...) estimated gradient of the value."""
    reached: Tensor
    """(B,) bool: a probe reached the goal."""
    x: Tensor
    """(B, ...) that probe; if none did, the point probed."""


def planned(problem: Problem, queries: int, directions: int) -> tuple[int, int]:
    """Numbers of directions per step and of steps, if one evaluation is used for the clean sample. With few
    evaluations a step probes fewer directions."""
    pairs = (queries // problem.draws - 1) // 2
    directions = max(1, min(directions, pairs))
    return directions, pairs // directions


def probed(problem: Problem, x: Tensor, draw: Draw, directions: int, size: float) -> Probed:
    r"""Pairs of probes along random directions u_j:   1/n sum_j ( f(x + size u_j) - f(x - size u_j) ) / (2
    size) * u_j

    Probes are kept within budget and range: one that reaches the goal is a success, after which a sample is
    not probed any more, and u_j is the difference between the two projected probes.
    """
    out = Probed(torch.zeros_like(x), torch.zeros(len(x), dtype=torch.bool, device=x.device), x.clone())
    left = torch.arange(len(x), device=x.device)
    for start in range(0, directions, BLOCK):
        active, n = problem.rows(left), min(BLOCK, directions - start)
        ends = _pair(active, x[left], draw(active, n), size)
        value, reached = scored(active, ends)
        slope = (
            (value[:, :n] - value[:, n:]).nan_to_num(0.0, 0.0, 0.0).view(len(left), n, *[1] * (x.dim() - 1))
        )
        out.gradient[left] += (slope * (ends[:, :n] - ends[:, n:])).sum(1) / (4 * size * size * directions)
        hit = reached.any(1)
        if problem.deterministic and bool(hit.any()):
            out.reached[left[hit]] = True
            out.x[left[hit]] = ends[hit, reached[hit].to(torch.uint8).argmax(1)]
            left = left[~hit]
            if not len(left):
                break
    return out


def _pair(problem: Problem, x: Tensor, u: Tensor, size: float) -> Tensor:
    """(B, 2 n, ...) the probes along u (B, n, ...), then those against it."""
    ends = torch.cat([x[:, None] + size * u, x[:, None] - size * u], 1)
    many = problem.rows(torch.arange(len(x), device=x.device).repeat_interleave(ends.shape[1]))
    return many.project(ends.flatten(0, 1)).view_as(ends)


def gaussian(problem: Problem, n: int) -> Tensor:
    """(B, n, ...) standard normal numbers, none on padding."""
    return normal_like(
        _many(problem, n), problem.generators, None if problem.mask is None else problem.lengths
    )


def signs(problem: Problem, n: int) -> Tensor:
    """(B, n, ...) of +1 and -1 with even odds, none on padding."""
    drawn = uniform_like(
        _many(problem, n), problem.generators, None if problem.mask is None else problem.lengths
    )
    ones = torch.where(drawn < 0.5, -1.0, 1.0).to(drawn)
    return ones if problem.mask is None else ones * problem.mask[:, None]


def _many(problem: Problem, n: int) -> Tensor:
    return problem.x[:, None].expand(-1, n, *problem.x.shape[1:])
