r"""The psychometric function: how often a listener hears a change, as it grows; and what a few answers say
about it.

    P("different" | level) = gamma + (1 - gamma - lapse) Phi( (level - threshold) / slope )

gamma is the rate of false alarms for same/different, 1/2 for ABX and two-interval choices, 1/n for a choice
among n; Phi is the Gaussian distribution function, so `threshold` is the level half way between the two ends
and a small `slope` is a steep curve. Wichmann & Hill 2001, https://doi.org/10.3758/BF03194544. The posterior
is computed on a grid, every prior point times the likelihood of every answer, and read off as marginals:
Kontsevich & Tyler 1999, https://doi.org/10.1016/S0042-6989(98)00285-5. Priors: flat in the threshold over the
range of levels, flat in the logarithm of the slope, flat over the listed lapses and gammas. So an interval
covers the truth as often as it says for listeners drawn from there. Of a listener who never (or always)
answers "different" only a bound is known: `open_end` says so.

Over listeners, thresholds are taken as drawn from N(mu, tau^2) and each listener enters with the whole
marginal likelihood L_i, not with a point estimate:

    p(mu, tau | answers) ~ prod_i  int L_i(t) N(t; mu, tau^2) dt,   flat in mu and in tau (Gelman 2006, https://doi.org/10.1214/06-BA117A)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from limen.core.errors import UserError
from limen.core.options import Options

LEVEL = 0.95


MOST_POINTS = 20_000_000
"""Levels, thresholds, slopes, lapses and gammas of a grid together, twenty times the usual: its tables take
160 MB each."""


class Prior(Options):
    """The grid on which a posterior lives. All its points weigh the same."""

    lowest: float = 0.0
    """Lowest level, and lowest threshold thought possible."""
    highest: float = 100.0
    """Highest level, and highest threshold thought possible."""
    step: float = Field(default=1.0, gt=0)
    """Distance between neighbouring levels and thresholds."""
    steepest: float = Field(default=2.0, gt=0)
    """Smallest slope (standard deviation of the Gaussian, in levels)."""
    shallowest: float = Field(default=32.0, gt=0)
    """Largest slope."""
    slopes: int = Field(default=9, ge=1)
    """Slopes between those two, evenly spaced on a logarithmic scale."""
    lapses: tuple[float, ...] = (0.01, 0.03, 0.05, 0.07)
    """Shares of "same" for a change that nobody can miss."""
    gammas: tuple[float, ...] = (0.01, 0.04, 0.08)
    """Shares of "different" where there is no difference. One value fixes it: 0.5 for ABX."""

    @model_validator(mode="after")
    def _sensible(self) -> "Prior":
        if self.highest - self.lowest < self.step:
            raise ValueError(
                f"highest ({self.highest:g}) must be at least one step ({self.step:g}) above lowest "
                f"({self.lowest:g})."
            )
        levels = (self.highest - self.lowest) / self.step
        points = levels * levels * self.slopes * len(self.lapses) * len(self.gammas)
        if points > MOST_POINTS:
            raise ValueError(
                f"the grid would have {points:.3g} points, and at most {MOST_POINTS:,} fit. Give larger "
                "steps or fewer slopes."
            )
        if self.shallowest < self.steepest:
            raise ValueError(
                f"shallowest ({self.shallowest:g}) must not be smaller than steepest ({self.steepest:g})."
            )
        if (
            not self.lapses
            or not self.gammas
            or min(self.lapses + self.gammas) < 0
            or max(self.lapses) + max(self.gammas) >= 1
        ):
            raise ValueError(
                "lapses and gammas need at least one value each, none negative, and the largest of both "
                "must add up to less than 1."
            )
        return self


@dataclass(frozen=True)
class Estimate:
    mean: float
    median: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Posterior:
    """What the answers of one listener on one axis say. `best` is the most probable point of the grid."""

    trials: int
    threshold: Estimate
    slope: Estimate
    lapse: Estimate
    gamma: Estimate
    best: dict[str, float]
    open_end: Literal["low", "high"] | None
    """The end of the range at which the threshold is most probable, if it is one: it may as well lie
    beyond."""
    marginal: tuple[float, ...]
    """Probability of each threshold of the grid; with a flat prior also its likelihood."""


@dataclass(frozen=True)
class Pooled:
    """Thresholds over listeners: their mean and their spread."""

    listeners: int
    mean: Estimate
    spread: Estimate


@dataclass(frozen=True, eq=False)
class Grid:
    """Points (T, K): thresholds down, all combinations of slope, lapse and gamma across. Tables (T, L, K) for
    L levels."""

    levels: np.ndarray
    thresholds: np.ndarray
    slope: np.ndarray
    lapse: np.ndarray
    gamma: np.ndarray
    different: np.ndarray
    """P("different") at each threshold, level and combination."""
    log_answers: tuple[np.ndarray, np.ndarray]
    """Logarithm of P("same") and of P("different"), (L, T, K)."""


def probability(level: Any, threshold: Any, slope: Any, lapse: Any = 0.0, gamma: Any = 0.0) -> Any:
    """P("different"), of numbers or of arrays that fit together."""
    from scipy.special import ndtr

    return gamma + (1 - gamma - lapse) * ndtr((np.asarray(level, float) - threshold) / slope)


@cache
def grid(prior: Prior) -> Grid:
    """Computed once per prior: 20 to 30 MB for the usual one."""
    levels = np.arange(prior.lowest, prior.highest + prior.step / 1e6, prior.step)
    slopes = np.geomspace(prior.steepest, prior.shallowest, prior.slopes)
    slope, lapse, gamma = (a.ravel() for a in np.meshgrid(slopes, prior.lapses, prior.gammas, indexing="ij"))
    different = probability(levels[None, :, None], levels[:, None, None], slope, lapse, gamma)
    log_answers = _logs(different.swapaxes(0, 1))
    return Grid(levels, levels, slope, lapse, gamma, different, log_answers)


def _logs(different: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # with gamma = lapse = 0 a single surprising answer may have probability 0 everywhere: the floor keeps the
    # posterior a distribution
    return np.log(np.maximum(1 - different, 1e-300)), np.log(np.maximum(different, 1e-300))


def log_likelihood(g: Grid, levels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """(T, K). Levels off the grid are allowed (a sentinel, say) and cost more."""
    total = np.zeros((len(g.thresholds), len(g.slope)))
    if not len(levels):
        return total
    places = np.clip(
        np.rint((levels - g.levels[0]) / (g.levels[1] - g.levels[0])).astype(int), 0, len(g.levels) - 1
    )
    on = np.abs(g.levels[places] - levels) < 1e-9
    for answer in (0, 1):
        for place in places[on & (answers == answer)]:
            total += g.log_answers[answer][place]
    for level, answer in zip(levels[~on], answers[~on], strict=True):
        total += _logs(probability(level, g.thresholds[:, None], g.slope, g.lapse, g.gamma))[int(answer)]
    return total


def weights(g: Grid, levels: Any, answers: Any) -> np.ndarray:
    """(T, K) that sum to 1: the posterior."""
    levels, answers = np.asarray(levels, float).ravel(), np.asarray(answers, bool).ravel()
    if len(levels) != len(answers) or not np.isfinite(levels).all():
        raise UserError(
            f"psychometric fit: {len(levels)} levels and {len(answers)} answers came; expected as many of "
            "each, levels finite."
        )
    logs = log_likelihood(g, levels, answers)
    out = np.exp(logs - logs.max())
    return out / out.sum()


def fit(
    levels: Sequence[float] | np.ndarray,
    answers: Sequence[bool] | np.ndarray,
    prior: Prior | None = None,
    level: float = LEVEL,
) -> Posterior:
    """The posterior after these answers; after none, the prior. `level` is that of the credible intervals
    (equal tails)."""
    g = grid(prior or Prior())
    w = weights(g, levels, answers)
    across, down = w.sum(0), w.sum(1)
    row, column = np.unravel_index(int(w.argmax()), w.shape)
    names = ("slope", "lapse", "gamma")
    best = {"threshold": float(g.thresholds[row])} | {name: float(getattr(g, name)[column]) for name in names}
    others = {name: _marginal(getattr(g, name), across, level, log=name == "slope") for name in names}
    top = int(down.argmax())
    ends: dict[int, Literal["low", "high"]] = {0: "low", len(down) - 1: "high"} if len(answers) else {}
    marginal = tuple(down.tolist())
    return Posterior(
        len(answers),
        estimate(g.thresholds, down, level),
        **others,
        best=best,
        open_end=ends.get(top),
        marginal=marginal,
    )


def _marginal(values: np.ndarray, w: np.ndarray, level: float, log: bool) -> Estimate:
    points, where = np.unique(values, return_inverse=True)
    return estimate(points, np.bincount(where, w), level, log)


def estimate(points: np.ndarray, w: np.ndarray, level: float = LEVEL, log: bool = False) -> Estimate:
    """Mean, median and interval of a distribution on a grid. A point stands for the cell around it, half way
    to its neighbours, cut off at the ends; without that, intervals of a coarse grid would be too narrow or
    too wide by up to a cell."""
    if len(points) == 1:
        return Estimate(float(points[0]), float(points[0]), 0.0, float(points[0]), float(points[0]))
    mean = float(points @ w)
    sd = float(np.sqrt(max(0.0, (points - mean) ** 2 @ w)))
    x = np.log(points) if log else points
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    # strictly rising, or the inverse would have a choice where nothing is left of the posterior
    below = np.concatenate([[0.0], np.cumsum(w + 1e-15)])
    cuts = np.interp([(1 - level) / 2, 0.5, (1 + level) / 2], below / below[-1], edges)
    low, median, high = (np.exp(cuts) if log else cuts).tolist()
    return Estimate(mean, median, sd, low, high)


def pooled(posteriors: Sequence[Posterior], prior: Prior | None = None, level: float = LEVEL) -> Pooled:
    """Mean and spread of the thresholds of the population that the listeners come from, all fitted with the
    same prior."""
    g = grid(prior or Prior())
    if not posteriors or any(len(p.marginal) != len(g.thresholds) for p in posteriors):
        raise UserError(
            f"pooled thresholds: {len(posteriors)} posteriors came; expected at least one, all fitted with "
            "the prior given here."
        )
    mu, tau, density = _population(prior or Prior())
    with np.errstate(
        divide="ignore"
    ):  # a mean far from a listener's threshold, with hardly any spread, is impossible
        logs = np.log(density @ np.asarray([p.marginal for p in posteriors]).T).sum(-1)
    w = np.exp(logs - logs.max())
    w /= w.sum()
    return Pooled(len(posteriors), estimate(mu, w.sum(1), level), estimate(tau, w.sum(0), level))


@cache
def _population(prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means mu (M,), spreads tau (S,), and the density of a threshold under each pair of them (M, S, T)."""
    t = grid(prior).thresholds
    mu = np.linspace(t[0], t[-1], 201)
    tau = np.linspace(0, (t[-1] - t[0]) / 2, 101)[1:]
    z = (t - mu[:, None, None]) / tau[:, None]
    return mu, tau, np.exp(-0.5 * z * z) / tau[:, None]
