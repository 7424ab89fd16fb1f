r"""Projected gradient descent. Madry et al. 2018, https://arxiv.org/abs/1706.06083:

    x^{t+1} = Proj_{B(x)} ( x^t + alpha * steepest_B( grad_x L(theta, x^t, y) ) )

Departs from the paper: alpha shrinks linearly to nothing (on the networks of docs/benchmarks.md that fools
more and sooner than constant steps, under linf and under l2, with the same calls; `shrink: false` is the
paper); the first point that reaches the goal is returned, and without early stop the one of highest loss;
momentum is optional (Dong et al. 2018); a restart only runs on the samples that have not been fooled yet.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.best import Best
from limen.budgets.families.balls import expand


class PGD(AttackOptions):
    quick: ClassVar[dict[str, Any]] = {"steps": 6, "restarts": 2}

    steps: int = Field(default=40, ge=1)
    """Gradient steps of one run."""
    step_size: float = Field(default=0.0, ge=0)
    """Length of the first step as a share of the budget's radius; 0 means 10 / steps but at most 2, or 2.5 /
    steps without shrink."""
    shrink: bool = True
    """Shrink the steps linearly to zero; if false all have the same length, as in the paper."""
    random_start: bool = True
    """Start at a random point of the budget instead of at the clean sample."""
    restarts: int = Field(default=1, ge=1)
    """Runs from different random starts; only samples not yet fooled are run again."""
    momentum: float = Field(default=0.0, ge=0)
    """Share of the last direction that is kept; gradients are scaled to mean magnitude 1."""
    early_stop: bool = True
    """A sample leaves the batch as soon as it reaches the goal (never if the model draws at random). If
    false, every step is made and the highest loss is kept."""

    @property
    def continues_after_success(self) -> bool:
        return not self.early_stop

    def cost(self, classes: int | None = None) -> float:
        return self.steps * self.restarts


@torch.no_grad()
def pgd(problem: Problem, options: PGD) -> Tensor:
    best = Best.none(problem)
    left = torch.arange(len(problem), device=problem.x.device)
    for restart in range(options.restarts):
        _run(problem.rows(left), options, best, left, last=restart + 1 == options.restarts)
        left = left[~best.reached[left]]
        if not len(left):
            break
    return best.x


def _run(active: Problem, options: PGD, best: Best, rows: Tensor, last: bool) -> None:
    """One run over the samples `rows`."""
    alpha = active.ball.radius * (
        options.step_size or (min(2.0, 10 / options.steps) if options.shrink else 2.5 / options.steps)
    )
    x_adv = active.start() if options.random_start else active.x.clone()
    velocity = torch.zeros_like(x_adv) if options.momentum else None
    early_stop = options.early_stop and active.deterministic
    for step in range(options.steps):
        gradient, loss, reached = active.gradient(x_adv, confirm=early_stop)
        if not early_stop:
            best.take(rows, x_adv, loss, reached)
        elif len(stay := (~reached).nonzero().squeeze(1)) < len(rows):
            best.take(rows[reached], x_adv[reached], loss[reached], reached[reached])
            if not len(stay):
                return
            active, rows, x_adv, gradient, alpha = (
                active.rows(stay),
                rows[stay],
                x_adv[stay],
                gradient[stay],
                alpha[stay],
            )
            velocity = None if velocity is None else velocity[stay]
        if velocity is not None:
            velocity = options.momentum * velocity + gradient / expand(
                gradient.flatten(1).abs().mean(1).clamp_min(1e-30), gradient
            )
            gradient = velocity
        x_adv = active.step(x_adv, gradient, alpha * (1 - step / options.steps) if options.shrink else alpha)
    if early_stop and last:
        best.x[rows] = (
            x_adv  # the final evaluation checks whether it reaches the goal; no pass is used for it here
        )
    else:
        best.take(rows, x_adv, *active.evaluate(x_adv, confirm=early_stop))
