r"""Carlini and Wagner's attack on speech recognisers. Carlini & Wagner 2018,
https://arxiv.org/abs/1801.01944:

    minimise  L(x + delta, t) + (1 / c) || delta ||_2    subject to  max|delta| <= tau

with Adam; whenever the goal is reached, tau becomes max|delta| if that is less, and then 0.8 tau, and delta
shrinks with it. The point of smallest || delta ||_2 that reaches the goal is kept; without success, the one
of lowest loss. Any goal and any model with a loss can be used: L is minus the loss that the goal raises, CTC
or per token.

Departs from the authors' code: each sample has its radius, its success and its end (there, one maximum is
taken over the whole batch, and later versions take one clip at a time); the model is evaluated on the clip as
16-bit audio instead of under random noise, so the gradient's own forward pass shows at every step whether the
goal is reached; Adam uses the gradient instead of its sign and is damped (see
limen/attacks/shared/speech_search.py), because with signs the result for a clip depends on the others in its
batch. Their settings are

    {sign: true, check_every: 10, eps: 0.061, learning_rate: 0.05, steps: 1000}

and those of Olivier 2023, appendix D.2.2,

    {optimiser: sgd, sign: true, eps: 0.015, learning_rate: 0.033, decrease: 0.5, max_decreases: 1,
        steps: 10000}
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.speech_search import Best, Steps, stored
from limen.budgets.families.balls import LinfBall, expand, length
from limen.perception.masking import STEP


class CW(AttackOptions):
    minimal: ClassVar[bool] = True
    # its own radius bounds the largest change of a sample
    promise: ClassVar[LinearPromise] = LinearPromise(norms=("linf",))
    quick: ClassVar[dict[str, Any]] = {"steps": 12, "learning_rate": 0.1}

    steps: int = Field(default=500, ge=1)
    """Gradient steps."""
    eps: float = Field(default=0.05, gt=0)
    """First radius tau, in input units. A budget linf or peak_db replaces it; any other budget is kept in
    addition."""
    learning_rate: float = Field(default=0.02, gt=0)
    """Length of a step as a share of the radius; it shrinks with the radius (0.001 in the papers is 0.02 of
    their radius 0.05)."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """"adam", or "sgd": the gradient itself, scaled to root mean square 1."""
    sign: bool = False
    """Take only the signs of the gradient, as the authors' code does."""
    decrease: float = Field(default=0.8, gt=0, lt=1)
    """Factor of the radius whenever the goal is reached."""
    max_decreases: int | None = Field(default=None, ge=0)
    """A sample that reaches the goal after this many decreases is finished; null: it uses all steps."""
    const: float = Field(default=10.0, gt=0)
    """c. A smaller c makes the change quieter and the goal harder to reach: on ctc_small 0.03 gains 2 dB, but
    it outweighs the loss of a classifier."""
    check_every: int = Field(default=1, ge=1)
    """Steps between two checks of the goal."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def cw(problem: Problem, options: CW) -> Tensor:
    return stored(problem, shrink(problem, options).x)


def first_radius(problem: Problem, options: CW) -> Tensor:
    """(B,)."""
    return (
        problem.budget.radius
        if problem.budget is not None and problem.budget.norm_name == "linf"
        else problem.x.new_full((len(problem),), options.eps)
    )


def shrink(problem: Problem, options: CW) -> Best:
    """The smallest perturbation found of every sample; without success, the point of lowest loss."""
    best, ball, x_adv = Best.of(problem.x), LinfBall(first_radius(problem, options)), problem.x.clone()
    active, rows, steps = (
        problem,
        torch.arange(len(problem), device=problem.x.device),
        Steps(options.optimiser, problem),
    )
    decreases, most = (
        torch.zeros_like(rows),
        options.steps if options.max_decreases is None else options.max_decreases,
    )
    for step in range(options.steps + 1):
        last = step == options.steps
        kept = stored(active, x_adv)
        looks = step % options.check_every == 0
        gradient, loss, reached = (
            (kept, *active.evaluate(kept)) if last else active.gradient(kept, confirm=looks)
        )
        delta = x_adv - active.x
        if last or looks:
            _record(active, best, rows, x_adv, kept, loss, reached)
            if last:
                break
            if bool(reached.any()):
                shrunk = options.decrease * delta.flatten(1).abs().amax(
                    1
                )  # at most the radius, times decrease
                stay = ~(
                    reached & ((shrunk < STEP) | (decreases >= most))
                )  # a smaller change vanishes in 16-bit audio
                if not bool(stay.any()):
                    break
                ball = LinfBall(torch.where(reached, shrunk, ball.radius))
                delta.mul_(expand(torch.where(reached, delta.new_tensor(options.decrease), 1.0), delta))
                decreases = decreases + reached
                if not bool(stay.all()):
                    active, ball = active.rows(stay), ball.rows(stay)
                    rows, decreases, delta, gradient = (t[stay] for t in (rows, decreases, delta, gradient))
                    steps.rows(stay)
        norm = length(delta).clamp_min(torch.finfo(delta.dtype).tiny)
        slope = (delta / expand(options.const * norm, delta)).sub_(gradient)
        way = steps.down(slope.sign_() if options.sign else slope).mul_(
            expand(options.learning_rate * ball.radius, delta)
        )
        x_adv = active.project(ball.project(way.add_(delta)).add_(active.x))
    return best


def _record(
    active: Problem, best: Best, rows: Tensor, x_adv: Tensor, kept: Tensor, loss: Tensor, reached: Tensor
) -> None:
    """Keeps the points that are better than before."""
    size = length(kept - active.x) if bool(reached.any()) else torch.full_like(loss, torch.inf)
    better = torch.where(reached, size < best.size[rows], best.size[rows].isinf() & (loss > best.loss[rows]))
    i = better.nonzero().squeeze(1)
    best.x[rows[i]], best.loss[rows[i]], best.size[rows[i]] = (
        x_adv[i],
        loss[i],
        torch.where(reached, size, torch.inf)[i],
    )
