r"""Projected gradient descent. Madry et al. 2018, https://arxiv.org/abs/1706.06083:

    x^{t+1} = Proj_{B(x)} ( x^t + alpha * steepest_B( grad_x L(theta, x^t, y) ) )

Departs from the paper: the first point that reaches the goal is returned (or, without early stop, the one of highest loss), not the
last iterate; momentum is offered (Dong et al. 2018); a restart only takes up the samples that have not been fooled yet.
"""

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks._problem import Problem
from limen.budgets._balls import expand
from limen.options import Options


class PGD(Options):
    steps: int = Field(default=40, ge=1)
    """Gradient steps of one run."""
    step_size: float = Field(default=0.0, ge=0)
    """Length of a step as a share of the budget's radius; 0 means 2.5 / steps, as in the paper's code."""
    random_start: bool = True
    """Start at a random point of the budget instead of at the clean sample."""
    restarts: int = Field(default=1, ge=1)
    """Runs from different random starts; only samples not yet fooled are run again."""
    momentum: float = Field(default=0.0, ge=0)
    """Share of the last direction that is kept, gradients being scaled to mean magnitude 1."""
    early_stop: bool = True
    """A sample leaves the batch as soon as it reaches the goal. If false, every step is made and the highest loss is kept."""


@torch.no_grad()
def pgd(problem: Problem, options: PGD) -> Tensor:
    found = problem.x.clone()
    best = problem.x.new_full((len(problem),), -torch.inf)
    left = torch.arange(len(problem), device=problem.x.device)
    for _ in range(options.restarts):
        if len(left):
            left = left[~_run(problem.rows(left), options, found, best, left)]
    return found


def _run(active: Problem, options: PGD, found: Tensor, best: Tensor, rows: Tensor) -> Tensor:
    """One run over the samples `rows`; writes the best points into `found` and says which samples reached the goal."""
    alpha = active.ball.radius * (options.step_size or 2.5 / options.steps)
    x_adv = active.start() if options.random_start else active.x.clone()
    velocity = torch.zeros_like(x_adv)
    done = torch.zeros(len(rows), dtype=torch.bool, device=x_adv.device)
    here = torch.arange(len(rows), device=x_adv.device)  # rows still moving
    for step in range(options.steps + 1):
        if step < options.steps:
            gradient, loss, reached = active.gradient(x_adv)
        else:
            loss, reached = active.look(x_adv)
        # a point that reaches the goal is worth more than any that does not
        value = torch.where(reached, torch.inf, loss) if options.early_stop else torch.where(reached, loss + 1e9, loss)
        better = value > best[rows[here]]
        best[rows[here[better]]], found[rows[here[better]]] = value[better], x_adv[better]
        done[here] |= reached
        if step == options.steps:
            break
        if options.early_stop and bool(reached.any()):
            stay = ~reached
            if not bool(stay.any()):
                break
            active, here, x_adv, gradient, velocity, alpha = (active.rows(stay), here[stay], x_adv[stay], gradient[stay], velocity[stay], alpha[stay])
        if options.momentum:
            velocity = options.momentum * velocity + gradient / expand(gradient.flatten(1).abs().mean(1).clamp_min(1e-30), gradient)
            gradient = velocity
        x_adv = active.project(x_adv + active.ball.step(gradient, alpha))
    return done
