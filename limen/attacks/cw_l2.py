r"""Carlini and Wagner's L2 attack. Carlini & Wagner 2017, https://arxiv.org/abs/1608.04644:

    minimise  || delta ||_2^2 + c * max( kappa - margin(x + delta), 0 )
        subject to  low <= x + delta <= high

with Adam, and a binary search over c. margin is positive where the goal is reached: Z_t - max_{i != t} Z_i
for a target t, and the reverse for "anything but t". A recogniser has no margin: the loss of the goal is used
instead until the goal is reached.

Departs from the authors' code: the range is kept by projection (the first of the paper's three ways) instead
of by tanh, because tanh freezes values that are exactly at an end of the range, as 4 of 5 pixels of a digit
are; a search step starts at the last point of the one before instead of at the clean sample; once a sample
has succeeded its rate falls; c begins at 1, and a search step that gains little ends sooner; a success that
rounding could undo does not count. On the networks of docs/benchmarks.md this takes 240 to 330 of the 900
gradients, and median changes are smaller than those of the libraries there that use all of them. On 32 digits
and a small adversarially trained network, success with tanh is 25 % in the authors' form and 97 % if the
modifier is kept between search steps; with projection it is 100 %.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.penalty import Weights
from limen.attacks.shared.smallest_change import clear_margin
from limen.budgets.families.balls import expand

RATE_FALLS = 0.75
"""Factor of a sample's rate per search step once it has succeeded, because only the last few percent are left
to gain."""
LONGEST = 0.5
"""After a success no step is longer than this share of the smallest change found, if all values move at the
full rate."""


class CWL2(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(
        norms=("l2",), options={"l2": {"steps": 300, "learning_rate": 0.003}}
    )
    quick: ClassVar[dict[str, Any]] = {"steps": 12, "search_steps": 3, "learning_rate": 0.05, "c_init": 1.0}

    steps: int = Field(default=100, ge=1)
    """Adam steps of one search step."""
    search_steps: int = Field(default=9, ge=1)
    """Values of c tried."""
    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate of Adam, in input units, until the first success; it falls by a quarter or more with
    every search step after it. 0.01 suits pictures; 0.0005 clips, whose values are much smaller."""
    c_init: float = Field(default=1.0, gt=0)
    """First c; ten times more after a failure, halfway between failure and success afterwards."""
    confidence: float = Field(default=0.0, ge=0)
    """Margin kappa of the logits that counts as success. Recognisers ignore it."""
    abort_early: bool = True
    """A sample leaves a search step when its objective has not fallen by 1 % in a tenth of the steps (0.01 %
    in the authors' code)."""

    @property
    def continues_after_success(self) -> bool:
        return self.confidence > 0

    def cost(self, classes: int | None = None) -> float:
        return self.steps * self.search_steps


@torch.no_grad()
def cw_l2(problem: Problem, options: CWL2) -> Tensor:
    n, new = len(problem), problem.x.new_full
    weights = Weights.of(new((n,), options.c_init))
    best, found, x_adv = new((n,), torch.inf), problem.x.clone(), problem.x.clone()
    rate, values = (
        new((n,), options.learning_rate),
        problem.x[0].numel() if problem.lengths is None else problem.lengths.to(best),
    )
    for _ in range(options.search_steps):
        todo = (best > 0).nonzero().squeeze(1)  # what reaches the goal unchanged is finished
        if not len(todo):
            break
        weights.judge(
            _descend(problem.rows(todo), options, rate[todo], weights.c[todo], todo, x_adv, best, found), todo
        )
        slower = (RATE_FALLS * rate).minimum(LONGEST * best / values**0.5)
        rate = torch.where(best < torch.inf, slower, rate)  # samples without a success keep long steps
    found = torch.where(expand(best < torch.inf, found), found, x_adv)
    return problem.project(found)


def _descend(
    active: Problem,
    options: CWL2,
    rate: Tensor,
    c: Tensor,
    rows: Tensor,
    x_adv: Tensor,
    best: Tensor,
    found: Tensor,
) -> Tensor:
    """One search step over the samples `rows`: moves `x_adv`, writes smaller successes into `best` and
    `found`, and returns which samples succeeded."""
    x = x_adv[rows]
    first, second = torch.zeros_like(x), torch.zeros_like(x)  # Adam's moments
    checked = torch.full_like(c, torch.inf)
    succeeded = torch.zeros_like(rows, dtype=torch.bool)
    here = torch.arange(len(rows), device=rows.device)
    every = max(1, options.steps // 10)
    for step in range(1, options.steps + 1):
        gradient, short, success = _pull(active, x, c, options.confidence)
        delta = x - active.x
        size = delta.flatten(1).norm(dim=1)
        smaller = (success & (size < best[rows[here]])).nonzero().squeeze(1)
        best[rows[here[smaller]]], found[rows[here[smaller]]] = size[smaller], x[smaller]
        succeeded[here] |= success
        slope = delta.mul_(2).sub_(gradient)  # of || delta ||^2 + c * f
        first.mul_(0.9).add_(slope, alpha=0.1)
        second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        scale = (1 - 0.999**step) ** -0.5
        x = active.clip(
            x.addcdiv(
                first * expand(rate, x), second.sqrt().mul_(scale).add_(1e-8), value=-1 / (1 - 0.9**step)
            )
        )
        if options.abort_early and step % every == 0:
            objective = size.square() + c * short
            stay = objective < checked - 0.01 * checked.abs().nan_to_num(0.0, 0.0)
            checked = objective
            if not bool(stay.all()):
                x_adv[rows[here]] = x
                active, here, x, c, rate, checked = (
                    active.rows(stay),
                    here[stay],
                    x[stay],
                    c[stay],
                    rate[stay],
                    checked[stay],
                )
                first, second = first[stay], second[stay]
                if not len(here):
                    break
    x_adv[rows[here]] = x
    return succeeded


def _pull(active: Problem, x: Tensor, c: Tensor, confidence: float) -> tuple[Tensor, Tensor, Tensor]:
    """c times the gradient towards the goal (zero once it is reached), the remaining distance, and which
    samples have reached it."""
    if active.model.output == "class":
        gradient, margin, reached = active.gradient(x, loss=clear_margin(active.goal))
        success = reached & (margin >= confidence)
        short = (confidence - margin).clamp_min(0)
    else:
        gradient, loss, success = active.gradient(x)
        short = torch.where(success, 0, -loss)
    return gradient * expand(torch.where(success, 0, c), gradient), short, success
