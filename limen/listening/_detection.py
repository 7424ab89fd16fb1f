r"""Sensitivity d' and bias c from hits and false alarms. Macmillan & Creelman 2005, *Detection Theory*, chapters 1, 2 and 9.

With H and F the shares of hits and false alarms, z the inverse of the Gaussian distribution function Phi, and p = Phi((z(H) - z(F)) / 2)
the share an unbiased listener would get right:

    yes-no                        d' = z(H) - z(F)
    abx, differencing             p = Phi(d'/sqrt 2) Phi(d'/sqrt 6) + Phi(-d'/sqrt 2) Phi(-d'/sqrt 6)
    abx, independent              p = Phi(d'/sqrt 2) Phi(d'/2) + Phi(-d'/sqrt 2) Phi(-d'/2)
    same-different, differencing  H = Phi((d'-k)/sqrt 2) + Phi((-d'-k)/sqrt 2),   F = 2 Phi(-k/sqrt 2)
    same-different, independent   d' = 2 z( (1 + sqrt(2p - 1)) / 2 )
    bias, in all of them          c = -(z(H) + z(F)) / 2

The differencing model is the default: it is what a listener can do when every trial brings another clip (a roving design), as in a study of
adversarial examples. In ABX a hit is "A" for X = A and a false alarm "A" for X = B; in same-different both are "different", for different
and for equal pairs. A listener cannot do worse than guess, so d' is taken from 0 up; but of a sample that did worse by chance it must be
negative, or the mean over studies in which nothing is heard would be above 0 (0.24 for 36 listeners with 6 ABX trials). Below chance d' is
that of the mirrored shares, with a minus sign; the truncated d', max(d', 0), stands beside it. Shares are (hits + 1/2) / (trials + 1): the
log-linear correction, which keeps 0 and 1 finite. Hautus 1995, https://doi.org/10.3758/BF03203619.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from limen.errors import UserError
from limen.statistics import LEVEL, RESAMPLES

Design = Literal["abx", "same-different", "yes-no"]
Model = Literal["differencing", "independent"]
LARGEST = 12.0
"""d' beyond this is not told apart."""


@dataclass(frozen=True)
class Sensitivity:
    design: str
    model: str | None
    listeners: int
    trials: int
    hit_rate: float
    false_alarm_rate: float
    share_correct: float
    """Of an unbiased listener."""
    dprime: float
    """Negative below chance: its mean is 0 where nothing is heard."""
    truncated: float
    """0 below chance."""
    low: float
    """Of `dprime`."""
    high: float
    bias: float
    interval: Literal["bootstrap over listeners", "parametric bootstrap"]


def dprime(
    hit_rate: float | np.ndarray, false_alarm_rate: float | np.ndarray, design: Design = "abx", model: Model = "differencing"
) -> np.ndarray:
    """d' of shares strictly between 0 and 1, negative below chance; arrays welcome."""
    from scipy.special import ndtri

    h, f = np.broadcast_arrays(np.asarray(hit_rate, float), np.asarray(false_alarm_rate, float))
    if design == "yes-no":
        return ndtri(h) - ndtri(f)
    sign = np.sign(h - f)
    return sign * _above(np.maximum(h, f), np.minimum(h, f), design, model)


def _above(h: np.ndarray, f: np.ndarray, design: Design, model: Model) -> np.ndarray:
    """d' of no fewer hits than false alarms."""
    from scipy.special import ndtr, ndtri

    share = np.maximum(ndtr((ndtri(h) - ndtri(f)) / 2), 0.5)
    if design == "abx":
        return inverse(lambda d: abx_share(d, model), share)
    if model == "independent":
        return 2 * ndtri((1 + np.sqrt(2 * share - 1)) / 2)
    k = -math.sqrt(2) * ndtri(f / 2)
    return inverse(lambda d: ndtr((d - k) / math.sqrt(2)) + ndtr((-d - k) / math.sqrt(2)), h)


def abx_share(d: float | np.ndarray, model: Model = "differencing") -> np.ndarray:
    """Share of right ABX answers of an unbiased listener."""
    from scipy.special import ndtr

    d = np.asarray(d, float)
    first, second = d / math.sqrt(2), d / (math.sqrt(6) if model == "differencing" else 2)
    return ndtr(first) * ndtr(second) + ndtr(-first) * ndtr(-second)


def inverse(rising, values: np.ndarray) -> np.ndarray:
    """Where a rising function takes these values, by halving [0, LARGEST]."""
    low, high = np.zeros(np.shape(values)), np.full(np.shape(values), LARGEST)
    for _ in range(60):
        middle = (low + high) / 2
        below = rising(middle) < values
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def sensitivity(
    hits: Sequence[int],
    signals: Sequence[int],
    false_alarms: Sequence[int],
    noises: Sequence[int],
    design: Design = "abx",
    model: Model = "differencing",
    level: float = LEVEL,
    seed: int = 0,
) -> Sensitivity:
    """d' and c of all listeners together; one entry per listener in each list. The interval comes from drawing listeners with replacement;
    of a single listener, from drawing answers with the shares seen. Fewer than about ten listeners give too narrow an interval."""
    from limen.seeds import number

    counts = np.asarray([hits, signals, false_alarms, noises], float)
    h, s, f, n = counts
    if not counts.size or (counts < 0).any() or (h > s).any() or (f > n).any() or s.sum() == 0 or n.sum() == 0:
        raise UserError(
            f"sensitivity: hits {list(hits)} of {list(signals)} and false alarms {list(false_alarms)} of {list(noises)} came; "
            "expected no more hits than signal trials, and at least one trial of each kind."
        )
    rng = np.random.default_rng(number(seed, "sensitivity"))
    if len(h) > 1:
        drawn = counts[:, rng.integers(0, len(h), (RESAMPLES, len(h)))].sum(2)
        drawn = drawn[:, (drawn[1] > 0) & (drawn[3] > 0)]
    else:
        shares = _corrected(h.sum(), s.sum()), _corrected(f.sum(), n.sum())
        again = [rng.binomial(int(of[0]), share, RESAMPLES) for of, share in ((s, shares[0]), (n, shares[1]))]
        drawn = np.stack([again[0], np.full(RESAMPLES, s[0]), again[1], np.full(RESAMPLES, n[0])])
    low, high = np.quantile(dprime(_corrected(*drawn[:2]), _corrected(*drawn[2:]), design, model), [(1 - level) / 2, (1 + level) / 2])
    hit, alarm = float(_corrected(h.sum(), s.sum())), float(_corrected(f.sum(), n.sum()))
    d, share, c = float(dprime(hit, alarm, design, model)), *_unbiased(hit, alarm)
    how: Literal["bootstrap over listeners", "parametric bootstrap"] = "bootstrap over listeners" if len(h) > 1 else "parametric bootstrap"
    named = None if design == "yes-no" else model
    trials = int(s.sum() + n.sum())
    return Sensitivity(design, named, len(h), trials, hit, alarm, share, d, max(d, 0.0), float(low), float(high), c, how)


def _corrected(count, n):
    return (count + 0.5) / (n + 1)


def _unbiased(hit: float, alarm: float) -> tuple[float, float]:
    from scipy.special import ndtr, ndtri

    return float(ndtr((ndtri(hit) - ndtri(alarm)) / 2)), float(-(ndtri(hit) + ndtri(alarm)) / 2)
