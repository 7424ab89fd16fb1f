r"""Genetic search that uses only the loss of a black box. Alzantot et al. 2018,
https://arxiv.org/abs/1801.00554; for transcripts, with momentum in the mutation rate and a finish by
estimated gradients, Taori et al. 2018, https://arxiv.org/abs/1805.07820:

    parents ~ softmax(score / temperature),   child = each sample from either parent,
        child <- Proj_B(child + Bernoulli(p) * noise)
    p <- momentum * p + (1 - momentum) * mutation * spread / |gain|

where the score is the goal's loss, or the margin of a classifier, which does not saturate, and the best
`elite` members are kept unchanged. Departs from the papers: temperature and gain are measured in standard
deviations of the population's scores (`spread`), so one setting serves margins and CTC losses alike; the
noise is measured in the norm of the budget; the finish probes in both directions along random vectors (Ilyas
et al. 2018, https://arxiv.org/abs/1804.08598), while Taori et al. probe single samples, of which a clip has
thousands.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions
from limen.attacks.engine.problem import Problem
from limen.audio.filters import high_pass
from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.seeds import uniform_like
from limen.core.types import predictions

NEAR = 2
"""Character errors from the target at which the finish takes over."""
PROBE = 0.1
"""Length of a probe of the finish, as a share of the budget's radius."""
DECODE_EVERY = 10
"""Generations between two decodings of the transcripts."""


class Genetic(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    quick: ClassVar[dict[str, Any]] = {"generations": 4, "population": 6}

    generations: int = Field(default=500, ge=1)
    """Largest number of generations; a sample that reaches the goal is finished."""
    population: int = Field(default=20, ge=2)
    """Members of a population, one population per sample."""
    elite: int = Field(default=2, ge=1)
    """Best members that are kept unchanged."""
    temperature: float = Field(default=0.5, gt=0)
    """Selection temperature, in standard deviations of the scores; the lower, the more the best members are
    preferred."""
    mutation: float = Field(default=0.05, gt=0, le=1)
    """Share of a child's values that mutate in the first generation, and whenever a generation gains one
    standard deviation."""
    mutation_most: float = Field(default=0.1, gt=0, le=1)
    """Largest share of values that mutate, reached if nothing is gained."""
    momentum: float = Field(default=0.9, ge=0, le=1)
    """How slowly the share follows the gain; 1 keeps it constant."""
    strength: float = Field(default=1.0, gt=0)
    """Norm of the noise if all values mutated, as a share of the budget's radius."""
    high_pass_hz: float | None = Field(default=None, gt=0)
    """Clips: only noise above this frequency, which is less audible (Taori et al. use 7000); null: all
    frequencies."""
    finish: int = Field(default=0, ge=0)
    """Recognisers with a target text: random directions per step of the finish, which takes over once two
    characters are wrong; 0: none."""
    at_once: int = Field(default=64, ge=1)
    """Members evaluated in one forward pass."""

    @model_validator(mode="after")
    def _children(self) -> "Genetic":
        if self.elite >= self.population:
            raise ValueError(
                f"elite must be smaller than population, or there are no children; got {self.elite} of "
                f"{self.population}."
            )
        return self

    def cost(self, classes: int | None = None) -> float:
        return self.generations * (self.population - self.elite) * FORWARD


@dataclass
class Population:
    """Populations of all samples that are still searched, each sorted from its best member down."""

    problem: Problem
    rows: Tensor
    """(B,) which samples they are."""
    members: Tensor
    """(B, P, ...) allowed points."""
    score: Tensor
    """(B, P) loss or margin of the goal."""
    reached: Tensor
    """(B, P) bool."""
    p: Tensor
    """(B,) share of a child that mutates."""

    def sorted(self) -> "Population":
        order = self.score.masked_fill(self.reached, torch.inf).argsort(dim=1, descending=True, stable=True)
        row = torch.arange(len(order), device=order.device)[:, None]
        return replace(
            self,
            members=self.members[row, order],
            score=self.score[row, order],
            reached=self.reached[row, order],
        )

    def those(self, keep: Tensor) -> "Population":
        return Population(
            self.problem.rows(keep),
            *(t[keep] for t in (self.rows, self.members, self.score, self.reached, self.p)),
        )


@torch.no_grad()
def genetic(problem: Problem, options: Genetic) -> Tensor:
    if options.high_pass_hz is not None and problem.model.rate_hz is None:
        raise UserError(
            "genetic: high_pass_hz needs clips of a known sample rate, but this model has none. Leave "
            "high_pass_hz out."
        )
    x_adv = problem.x.clone()
    p = x_adv.new_full((len(problem),), options.mutation)
    first = _mutated(problem, problem.x[:, None].repeat_interleave(options.population, 1), p, options)
    current = Population(
        problem,
        torch.arange(len(problem), device=x_adv.device),
        first,
        *_look(problem, first, options.at_once),
        p,
    ).sorted()
    for generation in range(options.generations):
        x_adv[current.rows] = current.members[:, 0]
        stay = (
            ~current.reached[:, 0]
            if problem.deterministic
            else torch.ones_like(current.rows, dtype=torch.bool)
        )
        if options.finish and generation % DECODE_EVERY == 0:
            near = stay & _near(current.problem, current.members[:, 0])
            if bool(near.any()):
                steps = options.generations - generation
                x_adv[current.rows[near]] = _finished(
                    current.problem.rows(near), current.members[near, 0], steps, options
                )
            stay &= ~near
        if not bool(stay.all()):
            current = current.those(stay)
        if not len(current.rows):
            break
        current = _next(current, options)
    x_adv[current.rows] = current.members[:, 0]
    return x_adv


def _next(current: Population, options: Genetic) -> Population:
    """The elite and the children of parents that were chosen by their scores."""
    children = _mutated(current.problem, _crossed(current, options), current.p, options)
    score, reached = _look(current.problem, children, options.at_once)
    gain, spread = (score.amax(1) - current.score[:, 0]).clamp_min(0), current.score.std(1)
    rate = torch.where(gain > 0, options.mutation * spread / gain, torch.inf).clamp(max=options.mutation_most)
    join = lambda old, new: torch.cat([old[:, : options.elite], new], 1)
    return Population(
        current.problem,
        current.rows,
        join(current.members, children),
        join(current.score, score),
        join(current.reached, reached),
        options.momentum * current.p + (1 - options.momentum) * rate,
    ).sorted()


def _crossed(current: Population, options: Genetic) -> Tensor:
    """(B, children, ...): every sample of a child comes from either of its two parents, with even odds."""
    score = current.score.double()
    spread = score.std(1, keepdim=True)
    chance = (
        (score - score.amax(1, keepdim=True)) / (options.temperature * torch.where(spread > 0, spread, 1))
    ).softmax(1)
    children = options.population - options.elite
    drawn = uniform_like(score.new_zeros(len(score), 2 * children), current.problem.generators)
    chosen = (
        torch.searchsorted(chance.cumsum(1), drawn)
        .clamp_max(score.shape[1] - 1)
        .view(len(score), 2, children)
    )
    row = torch.arange(len(score), device=score.device)[:, None]
    mother, father = current.members[row, chosen[:, 0]], current.members[row, chosen[:, 1]]
    return torch.where(_uniform(current.problem, mother) < 0.5, mother, father)


def _mutated(problem: Problem, members: Tensor, p: Tensor, options: Genetic) -> Tensor:
    """(B, n, ...) with noise on a share p of each, within budget and range."""
    who = _uniform(problem, members) < p.view(-1, *[1] * (members.dim() - 1))
    noise = _audible(problem, 2 * _uniform(problem, members) - 1)
    many = _many(problem, members.shape[1])
    loud = many.ball.fill(noise.flatten(0, 1)).mul_(options.strength).view_as(members)
    change = members - problem.x[:, None] + loud * who
    if options.high_pass_hz is not None:
        # the whole change: picking single samples of two parents, or of the noise, spreads what was high over
        # all frequencies
        change = _audible(problem, high_pass(change, options.high_pass_hz, problem.model.rate_hz or 0))
    return many.project((problem.x[:, None] + change).flatten(0, 1)).view_as(members)


def _look(problem: Problem, members: Tensor, at_once: int) -> tuple[Tensor, Tensor]:
    """(B, n) scores and (B, n) whether each reaches the goal."""
    number = torch.arange(len(problem), device=members.device).repeat_interleave(members.shape[1])
    parts = [
        _scored(problem.rows(i), x)
        for i, x in zip(number.split(at_once), members.flatten(0, 1).split(at_once), strict=True)
    ]
    loss, reached = (torch.cat(part).view(members.shape[:2]) for part in zip(*parts, strict=True))
    return loss.nan_to_num(-torch.inf), reached


def _scored(problem: Problem, x: Tensor) -> tuple[Tensor, Tensor]:
    return problem.evaluate(x, problem.goal.margin if problem.model.output == "class" else None)


def _near(problem: Problem, x: Tensor) -> Tensor:
    """(B,) bool: the transcript is close to the target."""
    target = problem.goal.target
    if not isinstance(target, list):
        return torch.zeros(len(x), dtype=torch.bool, device=x.device)
    texts = predictions(problem.outputs(x))
    return torch.tensor(
        [edits(t, str(text)).errors <= NEAR for t, text in zip(target, texts, strict=True)], device=x.device
    )


def _finished(problem: Problem, x: Tensor, steps: int, options: Genetic) -> Tensor:
    """Steepest steps along gradients estimated from pairs of probes."""
    x_adv, rows = x.clone(), torch.arange(len(x), device=x.device)
    for step in range(steps):
        way = _audible(
            problem, 2 * _uniform(problem, x[:, None].expand(-1, options.finish, *x.shape[1:])) - 1
        )
        probe = _many(problem, options.finish).ball.fill(way.flatten(0, 1)).mul_(PROBE).view_as(way)
        slope = (
            _look(problem, x[:, None] + probe, options.at_once)[0]
            - _look(problem, x[:, None] - probe, options.at_once)[0]
        )
        gradient = (slope.view(*slope.shape, *[1] * (x.dim() - 1)) * way).sum(1)
        x = problem.step(x, gradient, problem.ball.radius * PROBE * (1 - step / steps))
        x_adv[rows] = x
        stay = ~problem.reached(x)
        problem, rows, x = problem.rows(stay), rows[stay], x[stay]
        if not len(rows):
            break
    return x_adv


def _many(problem: Problem, n: int) -> Problem:
    """Repeats every sample n times."""
    return problem.rows(torch.arange(len(problem), device=problem.x.device).repeat_interleave(n))


def _uniform(problem: Problem, members: Tensor) -> Tensor:
    """(B, n, ...) numbers in [0, 1), from each sample's own stream; padding stays 0."""
    return uniform_like(members, problem.generators, None if problem.mask is None else problem.lengths)


def _audible(problem: Problem, change: Tensor) -> Tensor:
    """(B, n, ...) with zeros on padding."""
    return change if problem.mask is None else change * problem.mask[:, None]
