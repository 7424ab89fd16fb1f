r"""Sensitivity d' and bias c from hits and false alarms. Macmillan & Creelman 2005, *Detection Theory*,
chapters 1, 2 and 9.

With H and F the shares of hits and false alarms, z the inverse of the Gaussian distribution function Phi, and
p = Phi((z(H) - z(F)) / 2) the share of correct answers of an unbiased listener:

    yes-no                        d' = z(H) - z(F)
    abx, differencing             p = Phi(d'/sqrt 2) Phi(d'/sqrt 6) + Phi(-d'/sqrt 2) Phi(-d'/sqrt 6)
    abx, independent              p = Phi(d'/sqrt 2) Phi(d'/2) + Phi(-d'/sqrt 2) Phi(-d'/2)
    same-different, differencing  H = Phi((d'-k)/sqrt 2) + Phi((-d'-k)/sqrt 2),   F = 2 Phi(-k/sqrt 2)
    same-different, independent   d' = 2 z( (1 + sqrt(2p - 1)) / 2 )
    bias, in all of them          c = -(z(H) + z(F)) / 2

The differencing model is the default: it applies if every trial has another clip (a roving design), as in a
study of adversarial examples. In ABX a hit is "A" for X = A and a false alarm "A" for X = B; in
same-different both are "different", for different and for equal pairs. A listener cannot perform worse than
guessing, so d' is often truncated at 0; but if a sample performs worse by chance it must be negative,
otherwise the mean over studies in which nothing is heard would be above 0 (0.24 for 36 listeners with 6 ABX
trials). Below chance d' is that of the mirrored shares, with a minus sign; the truncated d', max(d', 0), is
given as well. Shares are (hits + 1/2) / (trials + 1): the log-linear correction, which keeps d' finite for 0
and 1. Hautus 1995, https://doi.org/10.3758/BF03203619.

The interval of d' is that of the share of correct answers (`sampled_share`, over listeners and items),
transformed by the same curve with the bias c held fixed: with z(H) = e/2 - c and z(F) = -e/2 - c the share is
(Phi(e/2 - c) + Phi(e/2 + c)) / 2. It increases with e and is 1/2 if d' is 0, so the interval of d' excludes 0
exactly if that of the share excludes 1/2.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from limen.core.errors import UserError

Design = Literal["abx", "same-different", "yes-no"]
Model = Literal["differencing", "independent"]
LARGEST = 12.0
"""Larger d' are not distinguished."""


@dataclass(frozen=True)
class Sensitivity:
    design: str
    model: str | None
    trials: int
    hit_rate: float
    false_alarm_rate: float
    share_correct: float
    """The share of an unbiased listener."""
    dprime: float
    """Negative below chance: its mean is 0 if nothing is heard."""
    truncated: float
    """0 below chance."""
    low: float | None
    """Lower end of the interval of `dprime`; None without an interval of the share."""
    high: float | None
    bias: float


def dprime(
    hit_rate: float | np.ndarray,
    false_alarm_rate: float | np.ndarray,
    design: Design = "abx",
    model: Model = "differencing",
) -> np.ndarray:
    """d' for shares strictly between 0 and 1, negative below chance; also for arrays."""
    from scipy.special import ndtri

    h, f = np.broadcast_arrays(np.asarray(hit_rate, float), np.asarray(false_alarm_rate, float))
    if design == "yes-no":
        return ndtri(h) - ndtri(f)
    sign = np.sign(h - f)
    return sign * _above(np.maximum(h, f), np.minimum(h, f), design, model)


def _above(h: np.ndarray, f: np.ndarray, design: Design, model: Model) -> np.ndarray:
    """d' if there are at least as many hits as false alarms."""
    from scipy.special import ndtr, ndtri

    share = np.maximum(ndtr((ndtri(h) - ndtri(f)) / 2), 0.5)
    if design == "abx":
        return inverse(lambda d: abx_share(d, model), share)
    if model == "independent":
        return 2 * ndtri((1 + np.sqrt(2 * share - 1)) / 2)
    k = -math.sqrt(2) * ndtri(f / 2)
    return inverse(lambda d: ndtr((d - k) / math.sqrt(2)) + ndtr((-d - k) / math.sqrt(2)), h)


def abx_share(d: float | np.ndarray, model: Model = "differencing") -> np.ndarray:
    """Share of correct ABX answers of an unbiased listener."""
    from scipy.special import ndtr

    d = np.asarray(d, float)
    first, second = d / math.sqrt(2), d / (math.sqrt(6) if model == "differencing" else 2)
    return ndtr(first) * ndtr(second) + ndtr(-first) * ndtr(-second)


def inverse(rising, values: np.ndarray) -> np.ndarray:
    """The inverse of an increasing function at these values, by bisection of [0, LARGEST]."""
    low, high = np.zeros(np.shape(values)), np.full(np.shape(values), LARGEST)
    for _ in range(60):
        middle = (low + high) / 2
        below = rising(middle) < values
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def sensitivity(
    hits: int,
    signals: int,
    false_alarms: int,
    noises: int,
    design: Design = "abx",
    model: Model = "differencing",
    interval: tuple[float, float] | None = None,
) -> Sensitivity:
    """d' and c of all answers together. `interval`: interval of the share of correct answers."""
    if min(hits, false_alarms) < 0 or hits > signals or false_alarms > noises or not signals or not noises:
        raise UserError(
            f"sensitivity: got hits {hits} of {signals} and false alarms {false_alarms} of {noises}; "
            "expected no more hits than signal trials, and at least one trial of each kind."
        )
    hit, alarm = float(_corrected(hits, signals)), float(_corrected(false_alarms, noises))
    d, share, c = float(dprime(hit, alarm, design, model)), *_unbiased(hit, alarm)
    trials, low, high = signals + noises, None, None
    if interval is not None:
        ends = dprime(*_rates((np.asarray(interval) * trials + 1) / (trials + 2), c), design, model)
        # with unequal numbers of signals and noises the share may differ a little from that of the rates
        low, high = min(d, float(ends[0])), max(d, float(ends[1]))
    return Sensitivity(
        design, None if design == "yes-no" else model, trials, hit, alarm, share, d, max(d, 0.0), low, high, c
    )


def _rates(share: np.ndarray, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Hit and false alarm rates with this bias and share of correct answers, for equal numbers of signals and
    noises."""
    from scipy.special import ndtr

    away = inverse(lambda e: (ndtr(e / 2 - c) + ndtr(e / 2 + c)) / 2, np.maximum(share, 1 - share)) * np.sign(
        share - 0.5
    )
    return tuple(np.clip(ndtr(sign * away / 2 - c), 1e-12, 1 - 1e-12) for sign in (1, -1))  # type: ignore[return-value]


def _corrected(count, n):
    return (count + 0.5) / (n + 1)


def _unbiased(hit: float, alarm: float) -> tuple[float, float]:
    from scipy.special import ndtr, ndtri

    return float(ndtr((ndtri(hit) - ndtri(alarm)) / 2)), float(-(ndtri(hit) + ndtri(alarm)) / 2)
