r"""DeepFool: repeated steps to the nearest linearised decision boundary. Moosavi-Dezfooli et al. 2016,
https://arxiv.org/abs/1511.04599:

    f'_k = f_k(x_i) - f_c(x_i),   w'_k = grad f_k(x_i) - grad f_c(x_i),
        l = argmin_{k != c} |f'_k| / ||w'_k||_q
    r_i = |f'_l| / ||w'_l||_2^2 * w'_l           (l2, q = 2)
    r_i = |f'_l| / ||w'_l||_1 * sign(w'_l)       (linf, q = 1)
    x_{i+1} = x + (1 + overshoot) * sum_i r_i    until f leaves class c

Departs from the paper: only the classes most likely at the clean sample are considered (`k_classes`); the
overshoot is part of every step, as in the authors' code, and so is the range. Two walks are made and the
smaller change is kept. In the first, values at an end of the range that a step would push further are left
out of it: every step goes all the way to the linearised boundary, so two or three steps suffice even if such
values hold nearly all of the gradient. In the second, each step is clipped to the range, as in published
code: its steps fall short and are more numerous, and most of its points are nearer (86 % on digits), but it
stalls if clipping removes nearly all of a step. It is only made if such values matter, and towards two
classes: the one that the first walk reached, and the nearest to the clean sample without regard to the range.
A step that went far beyond the boundary is taken back along the straight way (`refine`); then the clean
sample is repeatedly projected onto the boundary as linearised at the point found (`nearer`), which is
SuperDeepFool of Abdollahpourrostam et al. 2024, https://arxiv.org/abs/2303.12481, with the range kept by an
exact projection; a point that rounding could turn back does not count as a success. With a budget, the point
found is projected into it.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.hyperplane import onto_hyperplane
from limen.attacks.shared.smallest_change import (
    Smallest,
    clear_margin,
    clearly_reached,
    rounding_margin,
    sizes,
)
from limen.budgets.families.balls import expand
from limen.core.errors import UserError

LITTLE = 0.01
"""Share of a slope up to which both walks count as one."""


class DeepFool(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(
        norms=("l2", "linf"), options={"l2": {"norm": "l2"}, "linf": {"norm": "linf"}}
    )

    norm: Literal["l2", "linf"] = "l2"
    """Norm of the change that is kept small."""
    steps: int = Field(default=50, ge=1)
    """Most steps of one sample."""
    overshoot: float = Field(default=0.02, ge=0)
    """Distance covered beyond the boundary, as a share of the distance to it."""
    k_classes: int = Field(default=10, ge=2)
    """Classes considered: the sample's own and the most likely others. Each costs one backward pass per
    step."""
    refine: int = Field(default=3, ge=0)
    """Bisection steps from the point found back towards the boundary, one forward pass each; 0: none, as in
    the paper."""
    nearer: int = Field(default=12, ge=0)
    """Gradients used to move closer to the clean sample along the boundary; 0: none, as in the paper."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps * (min(self.k_classes, classes or 2) - 1)


@torch.no_grad()
def deepfool(problem: Problem, options: DeepFool) -> Tensor:
    need_classes(problem, "deepfool")
    if problem.goal.targeted:
        raise UserError(
            "The attack deepfool seeks the nearest wrong class and supports no target. Use the goal "
            "untargeted, or cw_l2 or pgd."
        )
    own = problem.goal.reference
    assert isinstance(own, Tensor)
    logits = problem.outputs(problem.x)
    assert isinstance(logits, Tensor)
    others = (
        logits.scatter(1, own[:, None], -torch.inf).topk(min(options.k_classes, logits.shape[1]) - 1).indices
    )
    right = (~problem.goal.reached(logits)).nonzero().squeeze(1)
    if not len(right):
        return problem.project(problem.x)
    active, own, others = problem.rows(right), own[right], others[right]
    first = _walk(active, own, others, options, leave_out=True)
    best = Smallest.of(active)
    best.take(
        torch.arange(len(active), device=right.device),
        first.x,
        sizes(first.x - active.x, options.norm),
        first.reached,
    )
    rows = first.touched.nonzero().squeeze(1)
    if len(rows):
        some = active.rows(rows)
        wrong = some.outputs(first.x[rows]).scatter(1, own[rows, None], -torch.inf).argmax(1)  # type: ignore[union-attr]
        likely = torch.stack([wrong, first.nearest[rows]], 1)
        second = _walk(some, own[rows], likely, options, leave_out=False)
        best.take(rows, second.x, sizes(second.x - some.x, options.norm), second.reached)
    x_adv = problem.x.clone()
    x_adv[right] = _along(active, best.x, options) if options.nearer else best.x
    return problem.project(x_adv)


@dataclass
class _Walk:
    x: Tensor
    """Result of a walk."""
    reached: Tensor
    """(B,) bool."""
    touched: Tensor
    """(B,) bool: more than a LITTLE of a slope lay on values at an end of the range that it would push
    further."""
    nearest: Tensor
    """(B,) the class whose linearised boundary is nearest to the clean sample, ignoring the range."""


def _walk(problem: Problem, own: Tensor, others: Tensor, options: DeepFool, leave_out: bool) -> _Walk:
    """Steps to the nearest boundary until the goal is reached."""
    r, active, left = (
        torch.zeros_like(problem.x),
        problem,
        torch.arange(len(problem), device=problem.x.device),
    )
    no = torch.zeros_like(left, dtype=torch.bool)
    walk = _Walk(problem.x.clone(), no, no.clone(), left)
    for number in range(options.steps):
        step, touched, nearest = _to_nearest_boundary(
            active, walk.x[left], own[left], others[left], options.norm, leave_out
        )
        walk.touched[left] |= touched
        if number == 0:
            walk.nearest = nearest
        r = r + step
        x = active.clip(active.x + (1 + options.overshoot) * r)
        r = (x - active.x) / (1 + options.overshoot)  # the part cut off by the range is not carried over
        reached = clearly_reached(active, x)
        walk.x[left], walk.reached[left] = x, reached
        walk.x[left[reached]] = _pulled_back(active.rows(reached), x[reached], options)
        active, left, r = active.rows(~reached), left[~reached], r[~reached]
        if not len(left):
            break
    return walk


def _pulled_back(active: Problem, x_adv: Tensor, options: DeepFool) -> Tensor:
    """Moves points closer to the boundary along the line to the clean sample: a step may have gone far beyond
    it."""
    way = x_adv - active.x
    low, high = torch.zeros_like(way.flatten(1)[:, 0]), torch.ones_like(way.flatten(1)[:, 0])
    for _ in range(options.refine if len(way) else 0):
        middle = (low + high) / 2
        reached = clearly_reached(active, active.x + expand(middle, way) * way)
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    share = (high * (1 + options.overshoot)).clamp_max(1)
    nearer = active.x + expand(share, way) * way
    if not options.refine or not len(way):
        return x_adv
    return torch.where(expand(clearly_reached(active, nearer), way), nearer, x_adv)


def _along(active: Problem, x: Tensor, options: DeepFool) -> Tensor:
    """The smallest success of a search that goes from the clean sample to the boundary linearised at x where
    x is beyond it, and from x itself elsewhere."""
    best, rows, clean = Smallest.of(active), torch.arange(len(x), device=x.device), active.x.flatten(1)
    low, high = (active.clip(torch.full_like(x, end)).flatten(1) for end in (-torch.inf, torch.inf))
    for _ in range(options.nearer):
        gradient, margin, reached = active.gradient(x, loss=clear_margin(active.goal))
        success = reached & (margin > 0)
        best.take(rows, x, sizes(x - active.x, options.norm), success)
        here, w = x.flatten(1), gradient.flatten(1)
        start = torch.where(success[:, None], clean, here)
        way = onto_hyperplane(start, w, -margin - (w * (start - here)).sum(1), low, high, options.norm)
        x = active.clip((start + (1 + options.overshoot) * way).view_as(x))
    return best.x


def _to_nearest_boundary(
    active: Problem, x: Tensor, own: Tensor, others: Tensor, norm: str, leave_out: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The step, and `touched` and `nearest` of a walk."""
    logits, w = active.input_gradients(x, others, base=own)
    p, rows = 2 if norm == "l2" else 1, torch.arange(len(x), device=x.device)
    stuck = active.clip((x[:, None] + w.sign()).flatten(0, 1)).view_as(w) == x[:, None]
    free, rates = w.masked_fill(stuck, 0.0), w.flatten(2).norm(p=p, dim=2)
    movable = free.flatten(2).norm(p=p, dim=2)
    f = (logits.gather(1, others) - logits.gather(1, own[:, None])).abs() + rounding_margin(logits)[:, None]
    touched, nearest = (movable < (1 - LITTLE) * rates).any(1), others[rows, _distances(f, rates).argmin(1)]
    if leave_out:
        w, rates = free, movable
    distance = _distances(f, rates)
    k = distance.argmin(1)
    w, size, distance = w[rows, k], rates[rows, k], distance[rows, k].nan_to_num(0.0, 0.0, 0.0)
    direction = w.sign() if norm == "linf" else w / expand(torch.where(size > 0, size, 1), w)
    return expand(distance, w) * direction, touched, nearest


def _distances(f: Tensor, rates: Tensor) -> Tensor:
    """(B, k); a class whose logit has the same gradient is never reached."""
    return torch.where(rates > 0, f / rates, torch.inf)
