r"""One perturbation for all clips of a recogniser, crafted by gradients. Neekhara et al. 2019,
https://arxiv.org/abs/1905.03828:

    for x_i that is not yet garbled, CER(f(x_i), f(x_i + v)) < cer:
        r <- r + alpha * steepest( grad_r L(x_i + v + r) ),   v <- P_B(v + r)

and the best v over all crafting samples is kept. For goals other than untargeted, a sample is done when it
reaches the goal. Departs from the paper: `at_once` samples share one r, with equal weights of their
gradients; r is bounded instead of penalised. A sample longer than v gets v repeated, or silence after its
end; `over_time` lets every sample begin anywhere in it.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.budget_needs import need_norm
from limen.attacks.shared.perturbation import CHUNK, shuffled
from limen.budgets.families.balls import expand
from limen.budgets.families.budget import Budget
from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.seeds import uniform_like
from limen.core.types import Outputs, Transcripts, predictions
from limen.goals.base.goal import Goal, members


class Universal(AttackOptions):
    universal: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {"epochs": 2, "inner_steps": 3}

    seconds: float | None = Field(default=None, gt=0)
    """Length of the perturbation; null: that of the longest crafting sample."""
    tile: bool = True
    """Repeat the perturbation in longer samples; if false, it is followed by silence."""
    over_time: bool = False
    """The perturbation is a loop with a random start in each sample, drawn at every step and again when it is
    applied."""
    epochs: int = Field(default=10, ge=1)
    """Largest number of passes over the crafting samples."""
    inner_steps: int = Field(default=20, ge=1)
    """Largest number of gradient steps per pass and mini-batch."""
    step_size: float = Field(default=0.1, gt=0)
    """Length of a step, as a share of the budget's radius."""
    item_share: float = Field(default=0.3, gt=0)
    """How far one mini-batch may move the perturbation, as a share of the budget's radius."""
    at_once: int = Field(default=8, ge=1)
    """Samples of a mini-batch."""
    cer: float = Field(default=0.7, gt=0)
    """Recognisers without a target: a sample is done at this character error rate against the model's own
    clean answer."""
    rate: float = Field(default=1.0, gt=0, le=1)
    """Share of samples done at which crafting stops."""
    samples: int | None = Field(default=200, ge=1)
    """Training samples that an experiment crafts on; null: all."""

    @property
    def crafting_samples(self) -> int | None:
        return self.samples

    def crafting_cost(self) -> float:
        return self.epochs * self.inner_steps

    @torch.no_grad()
    def craft(self, problem: Problem) -> dict[str, Tensor]:
        need_norm(problem, "universal", "linf", "l2", "l1", "l0")
        problem = replace(problem, goal=_goal(problem, self.cer))
        v = problem.x.new_zeros(*problem.x.shape[1:-1], _length(problem, self))
        ball = replace(
            problem.ball, radius=problem.ball.norm(torch.ones_like(v)[None])
        )  # v is relative: at level 1 it fills each budget
        best = v
        reports: list[tuple[float, float]] = []
        for _ in range(self.epochs):
            for chunk in shuffled(problem).split(self.at_once):
                v = _moved(v, problem.rows(chunk), ball, self)
            reports.append(_success(problem, v, self))
            if reports[-1] == max(reports):
                best = v  # an epoch may also be worse than the one before
            if reports[-1][0] >= self.rate:
                break
        level = _level(problem).mean()
        done, score = torch.tensor(reports).unbind(1)
        return {"perturbation": best * level, "level": level, "done": done, "score": score}


@dataclass(frozen=True)
class _Garbled(Goal):
    """A character error rate of at least `cer` against the model's own clean transcript."""

    own: list[str] = field(default_factory=list)
    cer: float = 0.7

    def score(self, outputs: Outputs) -> Tensor:
        return torch.stack([self._rates(one) for one in members(outputs)]).amin(0).clamp_max(1.0)

    def needs_decoding(self, outputs: Outputs) -> None:
        """None: `reached` decodes the texts already."""
        return None

    def _reached(self, outputs: Tensor | Transcripts) -> Tensor:
        return self._rates(outputs) >= self.cer

    def _judged(self, outputs: Tensor | Transcripts) -> Tensor:
        return self._reached(outputs)

    def _rates(self, outputs: Tensor | Transcripts) -> Tensor:
        pairs = zip(self.own, predictions(outputs), strict=True)
        return torch.tensor([edits(own, str(text)).errors / max(len(own), 1) for own, text in pairs])


@torch.no_grad()
def universal(problem: Problem, options: Universal, crafted: dict[str, Tensor]) -> Tensor:
    v, level = (crafted[name].to(problem.x) for name in ("perturbation", "level"))
    return _on(problem, v / level, _places(problem, v.shape[-1], options))


def _moved(v: Tensor, active: Problem, ball: Budget, options: Universal) -> Tensor:
    """v after the steps for one mini-batch; samples that are done leave it."""
    r = torch.zeros_like(v)
    item = replace(ball, radius=options.item_share * ball.radius)
    for _ in range(options.inner_steps):
        places = _places(active, v.shape[-1], options)
        gradient, _, reached = active.gradient(_on(active, v + r, places))
        stay = ~reached
        if not bool(stay.any()):
            break
        active, gradient, places = active.rows(stay), gradient[stay], places[stay]
        # gradient with respect to v: at the sample's level, scaled so that no sample dominates
        gradient = gradient / expand(gradient.flatten(1).abs().mean(1).clamp_min(1e-30), gradient)
        step = ball.step(_gathered(gradient, places, v)[None], options.step_size * ball.radius)[0]
        r = ball.project((v + item.project((r + step)[None])[0])[None])[0] - v
    return v + r


def _success(problem: Problem, v: Tensor, options: Universal) -> tuple[float, float]:
    """Share of the samples that are done, and their mean score."""
    done, score = [], []
    for chunk in torch.arange(len(problem), device=problem.x.device).split(CHUNK):
        rows = problem.rows(chunk)
        x_adv = _on(rows, v, _places(rows, v.shape[-1], options))
        outputs = rows.outputs(x_adv)
        done.append(rows.confirmed(outputs, x_adv).float())
        score.append(rows.goal.score(outputs).float())
    return float(torch.cat(done).mean()), float(torch.cat(score).mean())


def _goal(problem: Problem, cer: float) -> Goal:
    """Without a target any wrong character would suffice, and a perturbation that stops there would fool few
    other clips."""
    goal = problem.goal
    if type(goal) is not Goal or goal.targeted or not isinstance(goal.reference, list):
        return goal
    own: list[Any] = []
    for chunk in torch.arange(len(problem), device=problem.x.device).split(CHUNK):
        rows = problem.rows(chunk)
        own += predictions(rows.outputs(rows.x))
    return _Garbled(goal.reference, False, goal.normalise, goal.first_weight, goal.at_least, own, cer)


def _length(problem: Problem, options: Universal) -> int:
    if problem.model.kind != "clip" and (options.seconds is not None or options.over_time):
        raise UserError(
            "universal: seconds and over_time are for clips, but this model takes pictures. Leave them out."
        )
    if options.seconds is None:
        return problem.x.shape[-1]
    if problem.model.rate_hz is None:
        raise UserError(
            "universal: seconds needs clips of a known sample rate, but this model has none. Leave seconds "
            "out."
        )
    return max(1, round(options.seconds * problem.model.rate_hz))


def _level(problem: Problem) -> Tensor:
    """(B,) the largest change that is the same for all values."""
    return problem.ball.radius / problem.ball.norm(
        torch.ones_like(problem.x) if problem.mask is None else problem.mask
    ).clamp_min(1)


def _places(problem: Problem, length: int, options: Universal) -> Tensor:
    """(B, T) index into v of each value; `length` for none."""
    place = torch.arange(problem.x.shape[-1], device=problem.x.device).expand(len(problem), -1)
    if options.over_time:
        start = uniform_like(place[:, :1].double(), problem.generators)
        place = place + (start * length).long()
    return place % length if options.tile or options.over_time else place.clamp_max(length)


def _on(problem: Problem, v: Tensor, places: Tensor) -> Tensor:
    """The samples with the perturbation as loud as each one's budget allows, in range; padding is left
    alone."""
    laid = torch.nn.functional.pad(v, (0, 1))[..., places].movedim(-2, 0)
    delta = laid * expand(_level(problem), problem.x)
    return problem.project(problem.x + (delta if problem.mask is None else delta * problem.mask))


def _gathered(gradient: Tensor, places: Tensor, v: Tensor) -> Tensor:
    """The gradient with respect to v: for every entry, the sum over all places where it is used."""
    total = gradient.new_zeros(*v.shape[:-1], v.shape[-1] + 1)
    for row, place in zip(gradient, places, strict=True):
        total.index_add_(-1, place, row)
    return total[..., :-1]
