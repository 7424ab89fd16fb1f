r"""A perturbation below the masking threshold of the clip. Qin et al. 2019, https://arxiv.org/abs/1903.10346,
sections 3.2 and 4:

    stage 1   minimise L(x + delta, t) subject to max|delta| <= tau,
        tau shrinking whenever the goal is reached: the attack cw
    stage 2   minimise L(x + delta, t) + alpha * l_theta(delta)
              l_theta = mean over frames and bins of max(0, psd_delta - theta),
                  theta the masking threshold of x

alpha grows while the goal is reached and falls while it is not. The point of lowest l_theta that reaches the
goal is kept; a sample without improvement keeps the result of stage 1, and one without a success in stage 1
does not enter stage 2.

Departs from the authors' code (whose alpha and rules for it these are): Adam uses the sum of both gradients,
as in the paper's equation, while the code applies them one after the other with the same moments; each sample
has its own alpha, its own success, judged on 16-bit audio, and its own end; delta is measured on the scale of
theta (see limen/perception/masking.py), in silence around the clip, so that its ends count as much as its
middle.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.cw import CW, first_radius, shrink
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.speech_search import Best, Steps, stored
from limen.budgets.families.balls import LinfBall, expand
from limen.core.errors import UserError
from limen.perception.masking import STEP, Masking

LEAST_ALPHA = 0.0005


class Imperceptible(CW):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)
    quick: ClassVar[dict[str, Any]] = {"steps": 8, "learning_rate": 0.1, "masking_steps": 6}

    masking_steps: int = Field(default=500, ge=1)
    """Gradient steps of stage 2; the other options are those of stage 1."""
    masking_rate: float = Field(default=5.0, gt=0)
    """Learning rate of Adam in stage 2, in steps of 16-bit audio (the authors use 1, with 4000 steps); a
    tenth of it in the last quarter."""
    alpha: float = Field(default=0.05, gt=0)
    """First weight of the masking loss."""
    increase: float = Field(default=1.2, ge=1)
    """Factor of alpha every `increase_every` steps if the goal is reached."""
    increase_every: int = Field(default=20, ge=1)
    """In steps."""
    fall: float = Field(default=0.8, gt=0, le=1)
    """Factor of alpha every `fall_every` steps if the goal is not reached."""
    fall_every: int = Field(default=50, ge=1)
    """In steps."""
    masking_check_every: int = Field(default=10, ge=1)
    """Steps between two checks whether a better masked point reaches the goal as 16-bit audio."""
    rate_hz: int | None = Field(default=None, ge=1000)
    """Sample rate of the clips; null: the model's."""

    def cost(self, classes: int | None = None) -> float:
        return super().cost(classes) + self.masking_steps


@torch.no_grad()
def imperceptible(problem: Problem, options: Imperceptible) -> Tensor:
    rate_hz = options.rate_hz or problem.model.rate_hz
    if problem.model.kind != "clip":
        raise UserError(
            "The attack imperceptible hides changes below the masking threshold of clips, but this model "
            "takes pictures. Use cw_l2 or cw."
        )
    if rate_hz is None:
        raise UserError(
            "The attack imperceptible needs the sample rate of the clips, which this model does not declare. "
            "Add it to the attack: rate_hz: 16000."
        )
    best = shrink(problem, options)
    rows = best.size.isfinite().nonzero().squeeze(1)
    if len(rows):
        _hide(problem.rows(rows), options, best, rows, rate_hz)
    return stored(problem, best.x)


def _hide(active: Problem, options: Imperceptible, best: Best, rows: Tensor, rate_hz: int) -> None:
    """Stage 2 for the samples `rows`: starts from the points in `best` and writes better ones back."""
    masking = Masking.of(active.x, active.lengths, rate_hz)
    ball, alpha = LinfBall(first_radius(active, options)), active.x.new_full((len(rows),), options.alpha)
    x_adv, steps = best.x[rows], Steps("adam", active)
    best.size[rows] = masking.excess(stored(active, x_adv) - active.x)  # from here on the size is l_theta
    for step in range(options.masking_steps + 1):
        delta = x_adv - active.x
        last = step == options.masking_steps
        kept = stored(active, x_adv)
        looks = step % options.masking_check_every == 0
        turns = (step + 1) % options.increase_every == 0 or (step + 1) % options.fall_every == 0
        gradient, _, reached = (
            (kept, *active.evaluate(kept)) if last else active.gradient(kept, confirm=looks or turns)
        )
        if last or looks:
            hidden = masking.excess(kept - active.x)
            i = (reached & (hidden < best.size[rows])).nonzero().squeeze(1)
            best.x[rows[i]], best.size[rows[i]] = x_adv[i], hidden[i]
            stay = best.size[rows] > 0
            if last or not bool(stay.any()):
                return
            if not bool(stay.all()):
                active, masking, ball = active.rows(stay), masking.rows(stay), ball.rows(stay)
                rows, alpha, reached, delta, gradient = (
                    t[stay] for t in (rows, alpha, reached, delta, gradient)
                )
                steps.rows(stay)
        push = _masking_gradient(masking, delta)
        if active.mask is not None:
            push = push * active.mask  # the last frames reach beyond the clip
        slope = push.mul_(expand(alpha, push)).sub_(gradient)
        rate = options.masking_rate * STEP * (0.1 if step >= 0.75 * options.masking_steps else 1.0)
        x_adv = active.project(active.x + ball.project(delta + rate * steps.down(slope)))
        alpha = _adapted(alpha, reached, step + 1, options)


def _masking_gradient(masking: Masking, delta: Tensor) -> Tensor:
    """Gradient of l_theta for each row. It needs no model, so it is not computed by the problem."""
    with torch.enable_grad():
        leaf = delta.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(masking.excess(leaf).sum(), leaf)
    return gradient


def _adapted(alpha: Tensor, reached: Tensor, steps_done: int, options: Imperceptible) -> Tensor:
    grown = alpha * options.increase if steps_done % options.increase_every == 0 else alpha
    fallen = (alpha * options.fall).clamp_min(LEAST_ALPHA) if steps_done % options.fall_every == 0 else alpha
    return torch.where(reached, grown, fallen)
