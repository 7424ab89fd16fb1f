r"""Hot/cold: a line search along the direction that raises one class and lowers another, to the nearest point
that fools the model and stays similar.

Rozsa et al. 2016, https://arxiv.org/abs/1605.01775:

    eta = |z_h| grad z_h - |z_c| grad z_c,    smallest s for which x + s * eta reaches the goal,
        PASS(x + s * eta, x) >= tau

z are the logits at x, c the cold class, which is the picture's own, and h the hot one: the target, or each of
the likeliest others in turn. One gradient per direction; the rest is a line search: s doubles until the goal
is reached, then the last step is halved. PASS is the structural similarity of the two pictures after
alignment (see the metric pass_score).

Departs from the paper: of several directions only the one with the smallest L2 change is kept; if none keeps
PASS, the clean picture is returned. With a budget, points of the line are projected into it.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.smallest_change import clearly_reached, room, shares, sizes
from limen.budgets.families.balls import expand
from limen.core.errors import UserError
from limen.core.types import Outputs
from limen.perception.similarity import pass_score

DOUBLINGS = 10
"""Doublings from the first step of the line search to a change of some pixel by the full range."""


class HotCold(AttackOptions):
    minimal: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"halvings": 3, "min_pass": 0.5}

    hot_classes: int = Field(default=3, ge=1)
    """Classes that are raised, one after the other: the likeliest wrong ones. A targeted goal has one."""
    halvings: int = Field(default=8, ge=0)
    """Halvings of the last step of the line search, one forward pass each."""
    min_pass: float = Field(default=0.99, ge=-1, le=1)
    """Smallest PASS allowed, the paper's tau; -1 allows any."""

    def cost(self, classes: int | None = None) -> float:
        return self.hot_classes * (1 + (DOUBLINGS + self.halvings) * FORWARD)


@torch.no_grad()
def hot_cold(problem: Problem, options: HotCold) -> Tensor:
    need_classes(problem, "hot_cold")
    if problem.x.dim() != 4:
        raise UserError(
            "The attack hot_cold keeps pictures similar, but these samples are clips. Use deepfool, ddn or "
            "cw_l2."
        )
    if problem.goal.reference.dim() != 1:
        raise UserError(
            "The attack hot_cold raises one class, but this goal names several. Use the goal target_class, "
            "or pgd."
        )
    n, classes = len(problem), len(problem.model.classes or [])
    runs = 1 if problem.goal.targeted else min(options.hot_classes, classes - 1)
    x_adv = problem.x.repeat_interleave(runs, 0)
    copies = problem.rows(torch.arange(n, device=x_adv.device).repeat_interleave(runs))
    rank = torch.arange(runs, device=x_adv.device).repeat(n)
    eta, _, reached = copies.gradient(x_adv, loss=lambda logits: _hot_minus_cold(logits, copies, rank))
    left = (~reached).nonzero().squeeze(1)
    size = torch.where(reached, 0, torch.inf).to(x_adv)
    if len(left):
        active = copies.rows(left)
        x_adv[left], found = _line_search(active, eta[left], options)
        alike = pass_score(x_adv[left], active.x) >= options.min_pass
        size[left] = torch.where(found & alike, sizes(x_adv[left] - active.x, "l2"), torch.inf)
    smallest, which = size.view(n, runs).min(1)
    chosen = x_adv.view(n, runs, *problem.x.shape[1:])[torch.arange(n, device=which.device), which]
    return torch.where(expand(smallest < torch.inf, chosen), chosen, problem.x)


def _hot_minus_cold(logits: Outputs, problem: Problem, rank: Tensor) -> Tensor:
    """(B,) a value whose gradient is eta."""
    assert isinstance(logits, Tensor)
    named = problem.goal.reference[:, None]
    order = logits.detach().argsort(dim=1, descending=True, stable=True)
    if problem.goal.targeted:
        hot, cold = named, order[:, :1]
    else:
        others = order[order != named].view(len(order), -1)
        hot, cold = others.gather(1, rank[:, None]), named
    z_h, z_c = logits.gather(1, hot), logits.gather(1, cold)
    return (z_h.detach().abs() * z_h - z_c.detach().abs() * z_c).squeeze(1)


def _line_search(problem: Problem, eta: Tensor, options: HotCold) -> tuple[Tensor, Tensor]:
    """The nearest point found along eta that reaches the goal, and of which samples there is one."""
    eta = eta * expand(shares(room(problem, "linf"), eta.flatten(1).abs().amax(1)), eta)
    point = lambda rows, s: problem.rows(rows).project(problem.x[rows] + expand(s, eta) * eta[rows])
    far = problem.x.new_full((len(problem),), torch.inf)
    left = torch.arange(len(problem), device=far.device)
    for doubling in range(DOUBLINGS + 1):
        s = far.new_full((len(left),), 2.0 ** (doubling - DOUBLINGS))
        reached = clearly_reached(problem.rows(left), point(left, s))
        far[left[reached]] = s[reached]
        left = left[~reached]
        if not len(left):
            break
    found = (far < torch.inf).nonzero().squeeze(1)
    high = far[found]
    low = torch.where(high > 2.0**-DOUBLINGS, high / 2, 0)
    for _ in range(options.halvings if len(found) else 0):
        middle = (low + high) / 2
        reached = clearly_reached(problem.rows(found), point(found, middle))
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    x_adv = problem.x.clone()
    x_adv[found] = point(found, high)
    return x_adv, far < torch.inf
