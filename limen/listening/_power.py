r"""How many listeners a study needs, before it is launched.

Answers of one listener resemble each other: with intraclass correlation icc, m answers of each of L listeners are worth

    n = L m / (1 + (m - 1) icc)

independent ones (the design effect, Kish 1965). Powers of shares are exact binomial sums at that n, rounded down; because they go up and
down as n grows, the answer is the smallest number of listeners from which on the power is kept.
"""

import math
from dataclasses import dataclass

import numpy as np

from limen.errors import UserError

MOST = 2000
"""Listeners that are thought of."""


@dataclass(frozen=True)
class Plan:
    listeners: int
    trials: int
    effective: float
    """Independent answers that all trials are worth."""
    power: float
    alpha: float
    assumes: str


def effective_trials(listeners: int, per_listener: int, icc: float = 0.0) -> float:
    return listeners * per_listener / (1 + (per_listener - 1) * icc)


def power_detect(n: int, share: float, chance: float = 0.5, alpha: float = 0.05) -> float:
    """Chance that the exact one-sided binomial test finds more than `chance` right when the true share is `share`."""
    from scipy.stats import binom

    k = np.arange(n + 1)
    reject = binom.sf(k - 1, n, chance) <= alpha
    return float(binom.pmf(k[reject], n, share).sum())


def power_equivalence(n: int, bound: float, share: float | None = None, chance: float = 0.5, alpha: float = 0.05) -> float:
    """Chance that `equivalence` shows a share within `bound` of chance, when it is `share` (chance itself for none)."""
    from scipy.stats import binom

    k = np.arange(n + 1)
    shown = (binom.sf(k - 1, n, max(0.0, chance - bound)) < alpha) & (binom.cdf(k, n, min(1.0, chance + bound)) < alpha)
    return float(binom.pmf(k[shown], n, chance if share is None else share).sum())


def listeners_to_detect(
    share: float, per_listener: int, chance: float = 0.5, icc: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> Plan:
    """Listeners for an ABX (or n-way) study to find that the share of right answers is above chance when it is `share`."""
    if not chance < share <= 1:
        raise UserError(f"listeners_to_detect: a share of {share:g} came; expected more than chance ({chance:g}) and at most 1.")
    words = f"share {share:g} against {chance:g}, {per_listener} trials each, intraclass correlation {icc:g}"
    return _smallest(lambda n: power_detect(n, share, chance, alpha), per_listener, icc, power, alpha, words)


def listeners_for_equivalence(
    bound: float,
    per_listener: int,
    share: float | None = None,
    chance: float = 0.5,
    icc: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Plan:
    """Listeners to show that the share of right answers is within `bound` of chance, when it is `share` (chance itself for none)."""
    true = chance if share is None else share
    if not abs(true - chance) < bound <= min(chance, 1 - chance):
        raise UserError(
            f"listeners_for_equivalence: a bound of {bound:g} came; expected more than the true share ({true:g}) is off chance."
        )
    words = f"share {true:g} within {bound:g} of {chance:g}, {per_listener} trials each, intraclass correlation {icc:g}"
    return _smallest(lambda n: power_equivalence(n, bound, true, chance, alpha), per_listener, icc, power, alpha, words)


def _smallest(power_at, per_listener: int, icc: float, power: float, alpha: float, words: str) -> Plan:
    effective = lambda listeners: effective_trials(listeners, per_listener, icc)  # noqa: E731
    reached = lambda listeners: power_at(int(effective(listeners))) >= power  # noqa: E731
    high = 1
    while not (reached(high) and reached(high + 1)):
        high *= 2
        if high > MOST:
            raise UserError(
                f"power {power:g} is not reached with {MOST} listeners ({words}). Ask for a larger effect, or for more trials each."
            )
    # the teeth of the power are small beside a doubling: above 2 x high nothing falls below again
    found = max((n for n in range(1, 2 * high + 1) if not reached(n)), default=0) + 1
    return Plan(found, found * per_listener, effective(found), power_at(int(effective(found))), alpha, words)


def listeners_for_shift(
    shift: float, rating_sd: float, per_condition: int, effect_sd: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> Plan:
    """Listeners to find that one condition is rated `shift` higher than another, each rating both, by a paired t test over listeners' mean
    differences, two-sided. `rating_sd` is the spread of one listener's ratings of one condition, `effect_sd` that of the shift."""
    if shift == 0 or rating_sd <= 0 or per_condition < 1:
        raise UserError(f"listeners_for_shift: shift {shift:g} and rating_sd {rating_sd:g} came; expected a shift and a spread above 0.")
    sd = math.sqrt(2 * rating_sd**2 / per_condition + effect_sd**2)
    for n in range(2, MOST + 1):
        if (reached := _paired_t(abs(shift) / sd, n, alpha)) >= power:
            words = f"shift {shift:g}, sd of a listener's mean difference {sd:.3g}"
            return Plan(n, 2 * n * per_condition, float(n), reached, alpha, words)
    raise UserError(f"power {power:g} is not reached with {MOST} listeners. Ask for a larger shift, or for more ratings each.")


def _paired_t(effect: float, n: int, alpha: float) -> float:
    from scipy.stats import nct, t

    beyond, away = t.ppf(1 - alpha / 2, n - 1), effect * math.sqrt(n)
    return float(nct.sf(beyond, n - 1, away) + nct.cdf(-beyond, n - 1, away))
