r"""Fast adaptive boundary: steps to the linearised decision boundary, biased towards the clean sample. Croce
& Hein 2020, https://arxiv.org/abs/1907.02044:

    pi = { z : f_s(x_i) + <w_s, z - x_i> = 0 },    s the class whose linearised boundary is nearest to x_i
    d_i = Proj_{pi, range}(x_i) - x_i,    d_0 = Proj_{pi, range}(x) - x,
        alpha = min( ||d_i|| / (||d_i|| + ||d_0||), alpha_max )
    x_{i+1} = clip( (1 - alpha) * (x_i + eta * d_i) + alpha * (x + eta * d_0) )
    and where x_{i+1} is adversarial:  x_{i+1} = (1 - beta) * x + beta * x_{i+1}

f_k = z_k - z_c and w_k its gradient. Towards a target t, f = z_t - max_{k != t} z_k.

Departs from the paper: after steps that fell short, one aims beyond the boundary: at f = (eta - 1) * 2^n |f|
for the n-th in a row, at most |f| (a boundary that curves away is otherwise approached for ever and never
crossed); a step needs one pass, which checks a point and linearises the boundary there: after a success, the
step starts from the point moved back, but uses the boundary linearised before that move; there is no final
search. With a budget, a sample is finished once it is inside, and with `give_up` also if it is far from it.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.give_up import Forecast
from limen.attacks.shared.hyperplane import onto_hyperplane
from limen.attacks.shared.smallest_change import (
    BALLS,
    DUALS,
    Smallest,
    clear_margin,
    clearly_reached,
    room,
    sizes,
)
from limen.budgets.families.balls import expand
from limen.budgets.families.budget import Budget


class FAB(AttackOptions):
    minimal: ClassVar[bool] = True
    compares_logits: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {"steps": 4, "restarts": 2}
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"targets": 3},)

    norm: Literal["l2", "linf", "l1"] | None = None
    """Norm of the change that is kept small; null: the norm of the budget, l2 without one."""
    steps: int = Field(default=100, ge=1)
    """Steps of one run."""
    restarts: int = Field(default=1, ge=1)
    """Runs (with `targets`: towards each class); all but the first start at a random point half as far away
    as the smallest change found in those before, or as the budget allows."""
    targets: int = Field(default=0, ge=0)
    """0: every step linearises towards all classes, one backward pass each; k: one run towards each of the k
    most likely other classes."""
    alpha_max: float = Field(default=0.1, ge=0, le=1)
    """Largest weight alpha of the step that starts from the clean sample."""
    eta: float = Field(default=1.05, ge=1)
    """Factor eta of a step; above 1 it goes beyond the linearised boundary."""
    beta: float = Field(default=0.9, gt=0, lt=1)
    """Share of the change that is kept after a success."""
    give_up: float = Field(default=0.0, ge=0)
    """0: never. Otherwise, with a budget, a sample's run ends after a quarter or a half of the steps if its
    smallest change would not get inside the budget even if it fell, with each further doubling of the steps,
    by this many times as much as with the last one."""

    def cost(self, classes: int | None = None) -> float:
        return self.steps * self.restarts * (self.targets or (classes or 2) - 1)


@torch.no_grad()
def fab(problem: Problem, options: FAB) -> Tensor:
    need_classes(problem, "fab")
    norm = options.norm or _norm_of(problem.budget)
    logits, reference = problem.outputs(problem.x), problem.goal.reference
    assert isinstance(logits, Tensor)
    assert isinstance(reference, Tensor)
    best = Smallest.of(problem)
    best.size[problem.goal.reached(logits)] = 0
    others = logits.scatter(1, reference[:, None], -torch.inf).topk(logits.shape[1] - 1).indices
    picks = (
        [others]
        if options.targets == 0 or problem.goal.targeted
        else list(others[:, : options.targets].split(1, 1))
    )
    while picks:
        left = ((best.size > 0) & ~_finished(problem, best, norm)).nonzero().squeeze(1)
        if not len(left):
            break
        # small batches are slow: as many runs as fit; where runs draw from a sample's stream, one after the
        # other
        together = len(problem) // len(left) if problem.deterministic and options.restarts == 1 else 1
        now, picks = picks[:together], picks[together:]
        _run_together(
            problem.rows(left.repeat(len(now))), options, norm, best, left, [pick[left] for pick in now]
        )
    return problem.project(best.x)


def _run_together(
    runs: Problem, options: FAB, norm: str, best: Smallest, left: Tensor, picks: list[Tensor]
) -> None:
    """Runs towards several classes at once. The result is the same as with one after the other: runs are
    independent, but a run is stopped and ignored once an earlier one is inside the budget."""
    together = len(picks)
    found, pick = Smallest.of(runs), torch.cat(picks)
    for restart in range(options.restarts):
        _run(runs, options, norm, found, pick, together, restart > 0)
    finished, x, size = (
        t.chunk(together) for t in (_finished(runs, found, norm, together), found.x, found.size)
    )
    for k in range(together):
        i = slice(None) if k == 0 else ~finished[k - 1]
        best.take(left[i], x[k][i], size[k][i], size[k][i] < torch.inf)


def _run(
    runs: Problem, options: FAB, norm: str, best: Smallest, pick: Tensor, together: int, random: bool
) -> None:
    left = (~_finished(runs, best, norm, together)).nonzero().squeeze(1)
    if not len(left):
        return
    active, pick = runs.rows(left), pick[left]
    x = _random_start(active, norm, best.size[left]) if random else active.x
    beyond = torch.full_like(
        best.size[left], options.eta - 1
    )  # how far beyond the boundary one that falls short aims, as a share of |f|
    nearest = torch.full_like(
        beyond, torch.inf
    )  # the smallest change of this run, as a multiple of the budget
    forecast = Forecast(
        options.give_up, options.steps, [options.steps // 8, options.steps // 4, options.steps // 2]
    )
    for step in range(options.steps):
        f, w, success = _boundary(active, x, pick, norm)
        delta = x - active.x
        size = sizes(delta, norm)
        some = bool(success.any())
        if some:
            best.take(left, x, size, success)
        if active.budget is not None and active.deterministic and (some or options.give_up):
            done = _finished(runs, best, norm, together)[left] if some else torch.zeros_like(success)
            if options.give_up:
                far = (
                    size if active.ball.norm_name == norm else active.ball.norm(delta)
                ) / active.ball.radius
                nearest = torch.where(success, nearest.minimum(far), nearest)
                done = done | forecast.at(step, nearest - 1)
            if bool(done.any()):
                if not some:  # given up, and not counted above
                    best.take(left[done], x[done], size[done], success[done])
                stay = (~done).nonzero().squeeze(1)
                active, forecast = active.rows(stay), forecast.rows(stay)
                left, pick, beyond, nearest, x, delta, f, w, success = (
                    t[stay] for t in (left, pick, beyond, nearest, x, delta, f, w, success)
                )
                if not len(left):
                    return
        along = delta.mul_(w).flatten(1).sum(1)
        if some:
            back = torch.where(success, options.beta, 1.0).to(x)
            x = torch.lerp(active.x, x, expand(back, x))
            f, along = f - (1 - back) * along, back * along  # the same boundary, seen from there
        f = f + f.clamp_max(0) * beyond
        x = _towards(active, x, f, f - along, w, options, norm)
        beyond = (2 * beyond).clamp_max_(1)
        if some:
            beyond = torch.where(success, options.eta - 1, beyond)
    best.take(left, x, sizes(x - active.x, norm), clearly_reached(active, x))


def _boundary(active: Problem, x: Tensor, pick: Tensor, norm: str) -> tuple[Tensor, Tensor, Tensor]:
    """f (B,) and w (B, ...) of the linearised boundary that is nearest, and which x are beyond one."""
    if active.goal.targeted:
        w, f, reached = active.gradient(x, loss=clear_margin(active.goal))
        return f, w, reached & (f > 0)
    own = active.goal.reference
    logits, w = active.input_gradients(x, pick, base=own)
    f, success = (
        logits.gather(1, pick) - logits.gather(1, own[:, None]),
        clear_margin(active.goal)(logits) > 0,
    )
    if pick.shape[1] == 1:
        return f[:, 0], w[:, 0], success
    rates = w.flatten(2).norm(p=DUALS[norm], dim=2)
    nearest = torch.where(rates > 0, f.abs() / torch.where(rates > 0, rates, 1), torch.inf).argmin(1)
    rows = torch.arange(len(x), device=x.device)
    return f[rows, nearest], w[rows, nearest], success


def _towards(
    active: Problem, x: Tensor, f: Tensor, f_0: Tensor, w: Tensor, options: FAB, norm: str
) -> Tensor:
    """One step: a mixture of eta times the step to the hyperplane from the current point and from the clean
    sample. `f` (B,) here, `f_0` at the clean one."""
    both = torch.stack([x.flatten(1), active.x.flatten(1)])
    low, high = _range(active)
    ways = onto_hyperplane(both, w.flatten(1), torch.stack([-f, -f_0]), low, high, norm)
    a_i, a_0 = sizes(ways.flatten(0, 1), norm).chunk(2)
    alpha = (a_i / (a_i + a_0).clamp_min(torch.finfo(x.dtype).tiny)).clamp_max(options.alpha_max)[:, None]
    here, clean = both.add_(ways, alpha=options.eta)
    return active.clip(here.lerp_(clean, alpha).view_as(x))


def _range(active: Problem) -> tuple[Tensor | float, Tensor | float]:
    """The ends of the range, of flat samples where they differ from value to value."""
    if isinstance(active.low, Tensor) or isinstance(active.high, Tensor):
        low, high = (
            active.clip(torch.full_like(active.x[:1], end)).flatten(1) for end in (-torch.inf, torch.inf)
        )
        return low, high
    return active.low, active.high


def _random_start(active: Problem, norm: str, smallest: Tensor) -> Tensor:
    radius = torch.where(smallest < torch.inf, smallest, room(active, norm))
    if active.budget is not None and active.budget.norm_name == norm:
        radius = radius.minimum(active.budget.radius)
    ball = BALLS[norm](radius / 2)
    return active.clip(
        active.x
        + ball.fill(ball.start(active.x, active.generators, None if active.mask is None else active.lengths))
    )


def _finished(problem: Problem, best: Smallest, norm: str, together: int = 1) -> Tensor:
    """(B,) bool: whether the smallest changes keep to the budget. If runs towards several classes are
    computed together (all rows of one class, then of the next), an earlier run of the sample counts too."""
    if problem.budget is None or not problem.deterministic:
        return torch.zeros_like(best.size, dtype=torch.bool)
    size = best.size
    if problem.ball.norm_name != norm:
        size = torch.where(size < torch.inf, problem.ball.norm(best.x - problem.x), torch.inf)
    inside = size <= problem.ball.radius
    return inside if together == 1 else inside.view(together, -1).cumsum(0).flatten() > 0


def _norm_of(budget: Budget | None) -> Literal["l2", "linf", "l1"]:
    if budget is not None and budget.coordinatewise:
        return "linf"
    return "l1" if budget is not None and budget.norm_name == "l1" else "l2"
