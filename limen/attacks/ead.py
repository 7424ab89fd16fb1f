r"""Elastic net attack: a change of small L1 norm, concentrated on few values. Chen et al. 2018,
https://arxiv.org/abs/1709.04114:

    minimise  c * f(x + delta) + ||delta||_2^2 + beta * ||delta||_1    subject to  low <= x + delta <= high
    x^{k+1} = S( y^k - alpha_k * grad( c * f + ||delta||_2^2 )(y^k) ),
        y^{k+1} = x^{k+1} + k / (k + 3) * ( x^{k+1} - x^k )

with a binary search over c. f is minus the margin of the logits, 0 once the goal is reached; S shrinks delta
and keeps the range.

Departs from the paper: S shrinks by alpha_k * beta, which is the proximal step of the objective above; the
paper's shrinks by beta for any step size, so its beta of 0.001 at steps of 0.01 is 0.1 here. alpha_k falls
along half a cosine, and steps are shorter if the L1 norm outweighs the square, because the shrinkage alone
would then undo the whole change. The first c is the one that would suffice if the model were linear; a search
step starts at the last point of the one before; success is checked at y^k, where the gradient is computed.
With a budget, a sample is finished once it is inside.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.penalty import Weights, inside
from limen.attacks.shared.smallest_change import annealed, clean_gradient, clear_margin, shares, sizes
from limen.budgets.families.balls import expand


class EAD(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(
        norms=("l1",), options={"l1": {"decision": "l1", "beta": 20.0, "steps": 100}}
    )
    quick: ClassVar[dict[str, Any]] = {"steps": 4, "search_steps": 3}

    beta: float = Field(default=2.0, ge=0)
    """Weight of the L1 norm, relative to the squared L2 norm; 0 uses the L2 norm only."""
    decision: Literal["en", "l1"] = "en"
    """Keep the success of smallest ||delta||_2^2 + beta * ||delta||_1 ("en"), or of smallest ||delta||_1
    ("l1")."""
    steps: int = Field(default=25, ge=1)
    """Gradients of one search step."""
    search_steps: int = Field(default=9, ge=1)
    """Values of c tried."""
    step_size: float = Field(default=0.02, gt=0, le=0.5)
    """First alpha; it falls to a hundredth."""
    c_init: float = Field(default=1.0, gt=0)
    """First c, as a multiple of the one that would suffice if the model were linear; ten times more after a
    failure, halfway between failure and success afterwards."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps * self.search_steps


@torch.no_grad()
def ead(problem: Problem, options: EAD) -> Tensor:
    need_classes(problem, "ead")
    best, active, left, gradient, margin = clean_gradient(problem)
    slopes = active.movable(active.x, gradient).flatten(1).abs()
    weights = Weights.of(options.c_init * _enough(slopes, -margin, options.beta))
    first_alpha = options.step_size * (
        1 - shares(torch.full_like(margin, options.beta), weights.c * slopes.amax(1))
    ).clamp_min(1e-3)
    y, success = active.x, torch.zeros_like(left, dtype=torch.bool)
    for made in range(options.steps * options.search_steps - 1 if len(left) else 0):
        k = made % options.steps
        if k == 0:
            x, found = y, torch.zeros_like(success)
        alpha = annealed(k, options.steps, 1.0, 0.01) * first_alpha
        before, x = x, _shrunk(active, y, gradient, torch.where(success, 0, weights.c), alpha, options.beta)
        y = active.clip(x + k / (k + 3) * (x - before))
        gradient, margin, reached = active.gradient(y, loss=clear_margin(active.goal))
        success = reached & (margin > 0)
        best.take(left, y, _size(y - active.x, options), success)
        found = found | success
        if k == options.steps - 1:
            weights.judge(found)
        stay = ~inside(active, best, left)
        if not bool(stay.all()):
            active, left, weights, first_alpha = (
                active.rows(stay),
                left[stay],
                weights.rows(stay),
                first_alpha[stay],
            )
            x, y, gradient, success, found = x[stay], y[stay], gradient[stay], success[stay], found[stay]
            if not len(left):
                break
    return problem.project(best.x)


def _shrunk(active: Problem, y: Tensor, gradient: Tensor, c: Tensor, alpha: Tensor, beta: float) -> Tensor:
    """S( y - alpha * slope ), the slope of c * f + || delta ||^2."""
    delta, size = y - active.x, expand(alpha, y)
    delta = delta - size * (2 * delta - expand(c, y) * gradient)
    return active.clip(active.x + delta.sign() * (delta.abs() - size * beta).clamp_min(0))


def _size(delta: Tensor, options: EAD) -> Tensor:
    """(B,) the size that the decision rule compares."""
    l1 = sizes(delta, "l1")
    return l1 if options.decision == "l1" else sizes(delta, "l2").square() + options.beta * l1


def _enough(slopes: Tensor, need: Tensor, beta: float) -> Tensor:
    """(B,) the c at which the optimum of a linear model gains `need`: sum_i a_i * max( c * a_i - beta, 0 ) /
    2 for its slopes a (B, n).

    The sum over the k largest slopes alone reaches it at c_k = (2 * need + beta * sum a) / sum a^2. The
    answer is the smallest c_k, because omitting a positive term, or including a negative one, makes the sum
    smaller."""
    a = slopes.sort(dim=1, descending=True).values
    top = a[:, :1]
    a = shares(a, top)  # squares of small slopes would vanish
    c = (2 * shares(need[:, None], top) + beta * a.cumsum(1)) / a.square().cumsum(1).clamp_min(1)
    return shares(c.amin(1), top.squeeze(1))
