r"""The psychometric function: the probability that a listener hears a change, by its level, and its estimate
from a few answers.

    P("different" | level) = gamma + (1 - gamma - lapse) Phi( (level - threshold) / slope )

gamma is the rate of false alarms for same/different, 1/2 for ABX and two-interval choices, 1/n for a choice
among n; Phi is the Gaussian distribution function, so `threshold` is the level half way between the two ends
and a small `slope` is a steep curve. Wichmann & Hill 2001, https://doi.org/10.3758/BF03194544. The posterior
is computed on a grid, each prior point times the likelihood of all answers, and summarised by its marginals:
Kontsevich & Tyler 1999, https://doi.org/10.1016/S0042-6989(98)00285-5. Priors: flat in the threshold over the
range of levels, flat in the logarithm of the slope, flat over the listed lapses and gammas. For listeners
drawn from these priors the intervals have their nominal coverage. If a listener never (or always) answers
"different" the threshold has only a bound (`open_end`).

Over listeners, thresholds are modelled as drawn from N(mu, tau^2), and each listener contributes the complete
marginal likelihood L_i, not a point estimate:

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
"""Most points of a grid over levels, thresholds, slopes, lapses and gammas, twenty times the default; a table
then takes 160 MB."""


class Prior(Options):
    """The grid of a posterior. All its points have the same prior weight."""

    lowest: float = 0.0
    """Lowest level, and lowest possible threshold."""
    highest: float = 100.0
    """Highest level, and highest possible threshold."""
    step: float = Field(default=1.0, gt=0)
    """Distance between neighbouring levels and thresholds."""
    steepest: float = Field(default=2.0, gt=0)
    """Smallest slope (standard deviation of the Gaussian, in levels)."""
    shallowest: float = Field(default=32.0, gt=0)
    """Largest slope."""
    slopes: int = Field(default=9, ge=1)
    """Number of slopes from the smallest to the largest, evenly spaced on a logarithmic scale."""
    lapses: tuple[float, ...] = (0.01, 0.03, 0.05, 0.07)
    """Rates of "same" for a change that is clearly audible."""
    gammas: tuple[float, ...] = (0.01, 0.04, 0.08)
    """Rates of "different" without any difference. A single value fixes it: 0.5 for ABX."""

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
                f"the grid would have {points:.3g} points; at most {MOST_POINTS:,} are allowed. Set a larger "
                "step or fewer slopes."
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
    """The parameters of one listener on one axis, given the answers. `best` is the most probable point of the
    grid."""

    trials: int
    threshold: Estimate
    slope: Estimate
    lapse: Estimate
    gamma: Estimate
    best: dict[str, float]
    open_end: Literal["low", "high"] | None
    """The end of the range at which the threshold is most probable; it may then be beyond it. None if it is
    most probable inside the range."""
    marginal: tuple[float, ...]
    """Probability of each threshold of the grid; with the flat prior proportional to its likelihood."""


@dataclass(frozen=True)
class Pooled:
    """Thresholds over listeners: their mean and their spread."""

    listeners: int
    mean: Estimate
    spread: Estimate


@dataclass(frozen=True, eq=False)
class Grid:
    """Points (T, K): T thresholds and K combinations of slope, lapse and gamma; tables (T, L, K) for L
    levels."""

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
    """P("different") of numbers or of arrays that broadcast."""
    from scipy.special import ndtr

    return gamma + (1 - gamma - lapse) * ndtr((np.asarray(level, float) - threshold) / slope)


@cache
def grid(prior: Prior) -> Grid:
    """The grid of a prior, computed once: 20 to 30 MB for the default."""
    levels = np.arange(prior.lowest, prior.highest + prior.step / 1e6, prior.step)
    slopes = np.geomspace(prior.steepest, prior.shallowest, prior.slopes)
    slope, lapse, gamma = (a.ravel() for a in np.meshgrid(slopes, prior.lapses, prior.gammas, indexing="ij"))
    different = probability(levels[None, :, None], levels[:, None, None], slope, lapse, gamma)
    log_answers = _logs(different.swapaxes(0, 1))
    return Grid(levels, levels, slope, lapse, gamma, different, log_answers)


def _logs(different: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # with gamma = lapse = 0 a single unexpected answer may have probability 0 at every point: the floor keeps
    # the posterior a distribution
    return np.log(np.maximum(1 - different, 1e-300)), np.log(np.maximum(different, 1e-300))


def log_likelihood(g: Grid, levels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """(T, K). Levels that are not on the grid are allowed (sentinels, for example) and cost more."""
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
    """(T, K) posterior probabilities, which sum to 1."""
    levels, answers = np.asarray(levels, float).ravel(), np.asarray(answers, bool).ravel()
    if len(levels) != len(answers) or not np.isfinite(levels).all():
        raise UserError(
            f"psychometric fit: expected finite levels and one answer for each; got {len(levels)} levels and "
            f"{len(answers)} answers."
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
    """The posterior after these answers; without answers, the prior. `level` is that of the credible
    intervals, which have equal tails."""
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
    """Mean, median and interval of a distribution on a grid. A point represents the cell around it, half way
    to its neighbours, cut off at the ends; otherwise intervals of a coarse grid would be too narrow or too
    wide by up to a cell."""
    if len(points) == 1:
        return Estimate(float(points[0]), float(points[0]), 0.0, float(points[0]), float(points[0]))
    mean = float(points @ w)
    sd = float(np.sqrt(max(0.0, (points - mean) ** 2 @ w)))
    x = np.log(points) if log else points
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    # strictly increasing, so that the inverse is unique also where the posterior is 0
    below = np.concatenate([[0.0], np.cumsum(w + 1e-15)])
    cuts = np.interp([(1 - level) / 2, 0.5, (1 + level) / 2], below / below[-1], edges)
    low, median, high = (np.exp(cuts) if log else cuts).tolist()
    return Estimate(mean, median, sd, low, high)


def pooled(posteriors: Sequence[Posterior], prior: Prior | None = None, level: float = LEVEL) -> Pooled:
    """Mean and spread of the thresholds in the population of the listeners, who were all fitted with the same
    prior."""
    g = grid(prior or Prior())
    if not posteriors or any(len(p.marginal) != len(g.thresholds) for p in posteriors):
        raise UserError(
            "pooled thresholds: expected at least one posterior, all fitted with the prior given here; got "
            f"{len(posteriors)}."
        )
    mu, tau, density = _population(prior or Prior())
    # the density of a mean far from a listener's threshold, with hardly any spread, underflows to 0
    with np.errstate(divide="ignore"):
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
