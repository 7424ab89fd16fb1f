r"""Scale values from paired preferences. Bradley & Terry 1952,
https://doi.org/10.1093/biomet/39.3-4.324:

    P(i beats j) = 1 / (1 + exp(s_j - s_i)),     sum of s over items = 0

Departs from the paper: a wide Gaussian prior on each strength (PRIOR_SD) keeps the strength of an item that
never lost finite.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL, RESAMPLES

PRIOR_SD = 5.0
"""In log odds: odds of 150 to 1 are one standard deviation."""


@dataclass(frozen=True)
class Strength:
    item: str
    strength: float
    low: float
    high: float
    comparisons: int
    win_rate: float
    """Mean probability of being preferred to another item, according to the model."""


def bradley_terry(
    winners: Sequence[str],
    losers: Sequence[str],
    listeners: Sequence[str] | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[Strength, ...]:
    """Strengths in descending order. Intervals are bootstrap intervals over `listeners` if they are given,
    because answers of one listener are correlated; otherwise they follow from the curvature of the
    likelihood."""
    from scipy.special import expit
    from scipy.stats import norm

    from limen.core.seeds import number

    if len(winners) != len(losers) or not len(winners):
        raise UserError(
            f"bradley_terry: expected one winner and one loser per comparison, got "
            f"{len(winners)} winners and {len(losers)} losers."
        )
    items = sorted({*winners, *losers})
    place = {item: i for i, item in enumerate(items)}
    w, lost = np.asarray([place[v] for v in winners]), np.asarray([place[v] for v in losers])
    k = len(items)
    wins = _wins(w, lost, np.ones(len(w)), k)
    s, covariance = _fitted(wins)
    if listeners is None:
        half = float(norm.ppf((1 + level) / 2)) * np.sqrt(np.diag(covariance))
        low, high = s - half, s + half
    else:
        names, who = np.unique(np.asarray([str(v) for v in listeners]), return_inverse=True)
        rng = np.random.default_rng(number(seed, "preferences"))
        weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), RESAMPLES)[:, who]
        drawn = np.stack([_fitted(_wins(w, lost, row, k), s)[0] for row in weights])
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    total = wins.sum(0) + wins.sum(1)
    rate = [float(np.mean(expit(s[i] - np.delete(s, i)))) for i in range(k)]
    rows = [
        Strength(items[i], float(s[i]), float(low[i]), float(high[i]), round(float(total[i])), rate[i])
        for i in range(k)
    ]
    return tuple(sorted(rows, key=lambda row: -row.strength))


def _wins(w: np.ndarray, lost: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    return np.bincount(w * k + lost, weights, k * k).reshape(k, k)


def _fitted(wins: np.ndarray, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Strengths and their covariance, by Newton's method; the function is concave."""
    from scipy.special import expit

    n = wins + wins.T
    s = np.zeros(len(wins)) if start is None else start.copy()
    for _ in range(100):
        p = expit(s[:, None] - s)
        slope = wins.sum(1) - (n * p).sum(1) - s / PRIOR_SD**2
        v = n * p * (1 - p)
        curvature = np.diag(v.sum(1) + 1 / PRIOR_SD**2) - v
        step = np.linalg.solve(curvature, slope)
        s = s + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    # comparisons do not determine the mean, only the prior does: it is projected out
    centring = np.eye(len(s)) - 1 / len(s)
    return s - s.mean(), centring @ np.linalg.inv(curvature) @ centring
