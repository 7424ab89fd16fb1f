r"""Sequential tests, which may be evaluated before a study is complete without inflating the error rate.

Group-sequential tests spend alpha over the interim analyses; t is the share of the planned answers so far
(Lan & DeMets 1983, https://doi.org/10.1093/biomet/70.3.659):

    O'Brien-Fleming type   alpha(t) = 2 - 2 Phi( z_{alpha/2} / sqrt t )
    Pocock type            alpha(t) = alpha ln(1 + (e - 1) t)

The always-valid test may be evaluated after every answer. With k of n correct, its e-value is the likelihood
ratio of a uniform mixture of all shares p above chance p0, and by Ville's inequality it ever reaches 1/alpha
with probability at most alpha if the true share is p0 (or below):

    e = int_{p0}^1 p^k (1-p)^(n-k) dp / (1-p0)  /  ( p0^k (1-p0)^(n-k) )

The confidence sequence contains all p whose two-sided mixture is below 1/alpha; with probability 1 - alpha it
contains the true share at all times simultaneously. Howard et al. 2021, https://doi.org/10.1214/20-AOS1991;
Robbins 1970. Answers are assumed to be independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from limen.core.errors import UserError
from limen.listening.statistics.proportions import check_counts

Spending = Literal["obrien-fleming", "pocock"]
FINE = 4000
"""Grid points of the density of the running sum."""


@dataclass(frozen=True)
class Boundaries:
    """At analysis i stop if z >= z[i] (|z| for two sides), or p <= p[i]; `spent`: alpha spent so far."""

    spending: str
    sides: int
    fractions: tuple[float, ...]
    z: tuple[float, ...]
    p: tuple[float, ...]
    spent: tuple[float, ...]


@dataclass(frozen=True)
class CountBoundaries:
    """After n[i] answers stop if at least critical[i] are correct (None: impossible yet). `spent` is exact
    and never above the plan."""

    spending: str
    chance: float
    n: tuple[int, ...]
    critical: tuple[int | None, ...]
    spent: tuple[float, ...]


@dataclass(frozen=True)
class AlwaysValid:
    """`detected`: the share is above chance. `equivalent`: it is within `bound` of chance. Both may be
    evaluated after every answer."""

    successes: int
    n: int
    chance: float
    e_value: float
    p: float
    low: float
    high: float
    detected: bool
    equivalent: bool | None


def spent(fraction: float, alpha: float, spending: Spending) -> float:
    """alpha(t), the error rate spent at this fraction of the answers."""
    from scipy.stats import norm

    if spending == "pocock":
        return alpha * math.log(1 + (math.e - 1) * fraction)
    return float(2 * norm.sf(norm.isf(alpha / 2) / math.sqrt(fraction)))


def boundaries(
    fractions: Sequence[float],
    alpha: float = 0.05,
    spending: Spending = "obrien-fleming",
    sides: Literal[1, 2] = 1,
) -> Boundaries:
    """Boundaries for a statistic with independent Gaussian increments, such as the z of a share. Armitage,
    McPherson & Rowe 1969: the density of the running sum, truncated at each boundary, is convolved with the
    next increment. Two sides spend alpha / 2 each."""
    from scipy.stats import norm

    t = _checked(fractions)
    each = alpha / sides
    sums = np.linspace(
        -10, 10, FINE + 1
    )  # values of a Brownian motion whose standard deviation is 1 at the last analysis
    h = sums[1] - sums[0]
    z, used = [], []
    density, before, gone = np.zeros(0), 0.0, 0.0
    for now in t:
        target = spent(now, each, spending)
        step = math.sqrt(now - before)
        if before == 0:
            fresh = norm.pdf(sums, scale=step)
        else:
            kernel = norm.pdf(np.arange(-FINE, FINE + 1) * h, scale=step)
            fresh = _convolved(density, kernel)[FINE : 2 * FINE + 1] * h
        above = np.concatenate([np.cumsum(((fresh[1:] + fresh[:-1]) / 2 * h)[::-1])[::-1], [0.0]])
        cut = float(np.interp(-(target - gone), -above, sums)) if target > gone else math.inf
        z.append(cut / math.sqrt(now))
        gone = target
        used.append(gone * sides)
        density = fresh * _kept(sums, cut) * (_kept(-sums, cut) if sides == 2 else 1.0)
        before = now
    nominal = tuple(float(norm.sf(v)) * sides for v in z)
    return Boundaries(spending, sides, tuple(t), tuple(z), nominal, tuple(used))


def _kept(sums: np.ndarray, cut: float) -> np.ndarray:
    """Weights of the trapezoidal rule up to a boundary between two grid points."""
    beyond = np.clip((cut - sums) / abs(sums[1] - sums[0]), -1, 1)
    return np.where(
        beyond >= 1, 1.0, np.where(beyond >= 0, 0.5 + beyond * (1 - beyond / 2), (1 + beyond) ** 2 / 2)
    )


def _convolved(density: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(density, kernel), 0.0)


def count_boundaries(
    looks: Sequence[int],
    chance: float = 0.5,
    alpha: float = 0.05,
    spending: Spending = "obrien-fleming",
    planned: int | None = None,
) -> CountBoundaries:
    """Exact one-sided boundaries for the number of correct answers, analysed after `looks` answers; the last
    analysis is the end of the study unless more answers are `planned`."""
    from scipy.stats import binom

    total = planned or looks[-1]
    t = _checked([n / total for n in looks])
    going, before, gone = np.ones(1), 0, 0.0  # probability of each count among studies that have not stopped
    critical: list[int | None] = []
    used = []
    for n, fraction in zip(looks, t, strict=True):
        going = np.convolve(going, binom.pmf(np.arange(n - before + 1), n - before, chance))
        tail = np.cumsum(going[::-1])[::-1]
        allowed = np.flatnonzero(gone + tail <= spent(fraction, alpha, spending) + 1e-15)
        first = int(allowed[0]) if len(allowed) and tail[allowed[0]] > 0 else None
        if first is not None:
            gone += float(tail[first])
            going = going * (np.arange(len(going)) < first)
        critical.append(first)
        used.append(gone)
        before = n
    return CountBoundaries(spending, chance, tuple(looks), tuple(critical), tuple(used))


def _checked(fractions: Sequence[float]) -> list[float]:
    t = [float(v) for v in fractions]
    if not t or t[0] <= 0 or t[-1] > 1 + 1e-12 or any(b <= a for a, b in pairwise(t)):
        raise UserError(
            f"sequential looks: expected increasing shares of the planned answers above 0 and up to "
            f"1, got {t}."
        )
    return t


def always_valid(
    successes: int, n: int, chance: float = 0.5, alpha: float = 0.05, bound: float | None = None
) -> AlwaysValid:
    """e-value against chance, the p-value min(1, 1/e), and the confidence sequence of the share; `n` may be
    0."""
    from scipy.special import betainc, betaln, xlog1py, xlogy

    if n:
        check_counts("always_valid", successes, n)
    k, m = successes, n - successes
    whole = float(betaln(k + 1, m + 1))
    with np.errstate(divide="ignore"):
        part = float(np.log(betainc(m + 1, k + 1, 1 - chance)))
    log_e = whole + part - math.log(1 - chance) - float(xlogy(k, chance) + xlog1py(m, -chance))
    low, high = _confidence_sequence(k, m, whole, alpha)
    e = math.exp(min(log_e, 700.0))
    inside = None if bound is None else chance - bound < low and high < chance + bound
    return AlwaysValid(k, n, chance, e, min(1.0, 1 / e) if e else 1.0, low, high, e >= 1 / alpha, inside)


def _confidence_sequence(k: int, m: int, log_mixture: float, alpha: float) -> tuple[float, float]:
    from scipy.optimize import brentq
    from scipy.special import xlog1py, xlogy

    if k + m == 0:
        return 0.0, 1.0
    share, tiny = k / (k + m), 1e-15
    beyond = lambda p: log_mixture - float(xlogy(k, p) + xlog1py(m, -p)) + math.log(alpha)
    low = 0.0 if k == 0 else float(brentq(beyond, tiny, share))
    high = 1.0 if m == 0 else float(brentq(beyond, share, 1 - tiny))
    return low, high
