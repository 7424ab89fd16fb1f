r"""One-pixel attack: differential evolution over the position and the value of pixels. Su et al. 2019,
https://arxiv.org/abs/1710.08864:

    member = (place, colour) of each changed pixel;   child_i = member_r1 + 0.5 ( member_r2 - member_r3 ),
        r2, r3 drawn at random;
    child i takes the place of member i where it scores higher

The score is the margin of a classifier, which orders members as the paper's probability does and does not
flatten out, or the goal's loss. r1 is the best member (`base: random`, also drawn, is the paper). In a clip,
single samples are changed. With a budget every member is projected into it. A sample is finished with the
first member that reaches the goal.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.score_estimates import scored
from limen.core.seeds import normal_like, uniform_like

DIFFERENTIAL = 0.5
"""Weight of the difference of two members; the paper's F."""


class OnePixel(AttackOptions):
    own_limit: ClassVar[bool] = True
    """Changes `pixels` pixels."""
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60, "population": 10}

    pixels: int = Field(default=1, ge=1)
    """Pixels changed (in all their colours), or samples of a clip."""
    population: int = Field(default=50, ge=4)
    """Members of a population, one population per sample. The paper takes 400."""
    base: Literal["best", "random"] = "best"
    """Parent of a child: the best member, which needs fewer evaluations, or a random one, as in the paper."""
    queries: int = Field(default=5000, ge=1)
    """Largest number of evaluations of the model per sample; the paper: 400 members and 100 generations."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@dataclass
class Population:
    """The populations of all samples that are still searched."""

    problem: Problem
    rows: Tensor
    """(B,) which samples they are."""
    members: Tensor
    """(B, P, pixels, 2 + colours), all in [0, 1]: height, width (or time), colour from the lower to the upper
    end of the range."""
    score: Tensor
    """(B, P)."""
    reached: Tensor
    """(B, P) bool."""

    def those(self, keep: Tensor) -> "Population":
        return Population(
            self.problem.rows(keep), *(t[keep] for t in (self.rows, self.members, self.score, self.reached))
        )

    def best(self) -> Tensor:
        """(B, 1, ...) the best member of each sample: one that reaches the goal, or the highest score."""
        which = self.score.masked_fill(self.reached, torch.inf).argmax(1)
        return self.members[torch.arange(len(which), device=which.device), which][:, None]


@torch.no_grad()
def one_pixel(problem: Problem, options: OnePixel) -> Tensor:
    x_adv, looks = problem.x.clone(), options.queries // problem.draws - 1
    left, population = (~problem.reached(problem.x)).nonzero().squeeze(1), min(options.population, looks)
    if not len(left) or population < 1:
        return x_adv
    active, colours = problem.rows(left), problem.x.shape[1] if problem.x.dim() == 4 else 1
    like = problem.x.new_zeros(len(left), population, options.pixels, 2 + colours)
    first = uniform_like(like, active.generators)
    first[..., 2:] = (0.5 + 0.5 * normal_like(like[..., 2:], active.generators)).clamp(0, 1)
    herd = Population(active, left, first, *scored(active, _painted(active, first)))
    for _ in range(looks // population - 1):
        x_adv[herd.rows] = _painted(herd.problem, herd.best())[:, 0]
        if problem.deterministic and bool((done := herd.reached.any(1)).any()):
            herd = herd.those(~done)
            if not len(herd.rows):
                return x_adv
        herd = _next(herd, options)
    x_adv[herd.rows] = _painted(herd.problem, herd.best())[:, 0]
    return x_adv


def _next(herd: Population, options: OnePixel) -> Population:
    """Replaces every member by its child if the child is better."""
    b, p = herd.score.shape
    drawn = uniform_like(herd.score.new_zeros(b, p, 3), herd.problem.generators).double()
    one, two, three = (drawn * p).long().clamp_max(p - 1).unbind(2)
    if options.base == "best":
        one = herd.score.argmax(1, keepdim=True).expand_as(one)
    row = torch.arange(b, device=one.device)[:, None]
    of = lambda i: herd.members[row, i]
    children = of(one) + DIFFERENTIAL * (of(two) - of(three))
    # values outside of the picture or the range wrap around: clamped to the edge, entire populations would
    # collect there
    fresh = uniform_like(children, herd.problem.generators)
    children = torch.where((children < 0) | (children > 1), fresh, children)
    score, reached = scored(herd.problem, _painted(herd.problem, children))
    better = (score > herd.score) | reached
    pick = lambda new, old: torch.where(better.view(b, p, *[1] * (old.dim() - 2)), new, old)
    return replace(
        herd,
        members=pick(children, herd.members),
        score=pick(score, herd.score),
        reached=pick(reached, herd.reached),
    )


def _painted(problem: Problem, members: Tensor) -> Tensor:
    """(B, P, ...) the samples with the pixels of each member set, within the budget."""
    x, (b, p, pixels, _) = problem.x, members.shape
    height, width = x.shape[-2:] if x.dim() == 4 else (1, x.shape[-1])
    extent = x.new_full((b,), width) if problem.lengths is None else problem.lengths.to(x)
    down, across = ((members[..., 0] * height).long(), (members[..., 1] * extent.view(-1, 1, 1)).long())
    across = torch.minimum(across, extent.long().view(-1, 1, 1) - 1)
    place = down.clamp_max(height - 1) * width + across  # (B, P, pixels)
    flat = x.view(b, 1, -1, height * width).repeat(1, p, 1, 1)
    low, high = (
        torch.as_tensor(end).to(x).expand(x.shape[1:]).reshape(-1, height * width)
        for end in (problem.low, problem.high)
    )
    for k in range(pixels):  # one after the other: two members at the same place must not race
        at = place[..., k, None, None].expand(-1, -1, flat.shape[2], 1)
        dark, light = (end.expand(b, p, -1, -1).gather(3, at).squeeze(3) for end in (low, high))
        flat.scatter_(3, at, (dark + (light - dark) * members[..., k, 2:])[..., None])
    many = problem.rows(torch.arange(b, device=x.device).repeat_interleave(p))
    return many.project(flat.view(b * p, *x.shape[1:])).view(b, p, *x.shape[1:])
