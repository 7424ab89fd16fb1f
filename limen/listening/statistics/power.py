r"""The number of listeners a study needs: the power of the tests that its analysis will use.

Answers of one listener, and answers to one item, are correlated. For a share p the listeners contribute the
fraction icc of the variance p (1 - p), and items the variance that results from log odds with the standard
deviation `item_sd`. The expected design effect D and degrees of freedom are computed for the design
(`Crossing.expected`); the power is that of Student's t with the share as its mean,

    P( T > t ),     T ~ noncentral t,  (p - chance) / sqrt(D p (1 - p) / n)  from 0

Equivalence is confirmed only if few listeners may hear the change, so its power is that of the two one-sided
tests times the probability that the bound on listeners is small enough
(`limen.listening.statistics.hearers.power_few`). docs/benchmarks_statistics.md compares all of it with
simulated studies. The number of items is that of the study: more listeners do not compensate for few items.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from limen.core.errors import UserError
from limen.listening.statistics.assumptions import ICC, ITEM_SD
from limen.listening.statistics.crossed import Crossing, Spread
from limen.listening.statistics.hearers import FEW, power_few

MOST = 2000
"""Largest number of listeners that is considered."""
STEPS = 12
"""Range of listeners within which the power of equivalence may decrease a little, because it has steps."""
LARGEST_DESIGN = 400
"""Largest number of listeners for which the design is computed; beyond it, it is extrapolated."""


@dataclass(frozen=True)
class Plan:
    listeners: int
    trials: int
    effective: float
    """Number of independent answers that all trials are worth."""
    power: float
    alpha: float
    assumes: str


def power_detect(
    n: int, share: float, chance: float, alpha: float, effect: float, df: float, sides: int = 1
) -> float:
    """Probability that n answers with this design effect show a share different from `chance` if it is
    `share`; one-sided: above it."""
    from scipy.stats import t

    away = (share - chance) / math.sqrt(effect * share * (1 - share) / n)
    # the test uses the variance at chance, the answers have that of their share
    cut = float(t.ppf(1 - alpha / sides, df)) * math.sqrt(chance * (1 - chance) / (share * (1 - share)))
    return _beyond(cut, df, away, sides)


def _beyond(cut: float, df: float, away: float, sides: int) -> float:
    """Probability that a noncentral t is above the cut, or with two sides also below its negative."""
    from scipy.stats import nct

    # scipy returns nan for the far tail
    below = float(np.nan_to_num(nct.cdf(-cut, df, away))) if sides == 2 else 0.0
    return float(nct.sf(cut, df, away)) + below


def power_equivalence(
    asked: Sequence[int],
    bound: float,
    share: float,
    chance: float,
    alpha: float,
    effect: float,
    df: float,
    icc: float = ICC,
    sides: int = 1,
) -> float:
    """Probability that answers with this design effect are called inaudible if the share of correct ones is
    `share`: shown to be within `bound` of chance, with few listeners who may hear it. `asked`: trials of each
    listener; two sides: a preference for either."""
    from scipy.stats import chi2, norm, t

    n, low, high = sum(asked), chance - bound, chance + bound
    # average over the distribution of the variance estimate: quantiles of chi-square
    wrong = np.sqrt(chi2.ppf((np.arange(400) + 0.5) / 400, df) / df) * float(t.ppf(1 - alpha, df))
    error = math.sqrt(effect * share * (1 - share) / n)
    above = low + wrong * math.sqrt(effect * low * (1 - low) / n)
    below = high - wrong * math.sqrt(effect * high * (1 - high) / n)
    within = float(
        np.maximum(norm.cdf((below - share) / error) - norm.cdf((above - share) / error), 0.0).mean()
    )
    return within * power_few(asked, share, chance, icc, sides)


def listeners_to_detect(
    share: float,
    per_listener: int,
    items: int,
    chance: float = 0.5,
    icc: float = ICC,
    item_sd: float = ITEM_SD,
    power: float = 0.8,
    alpha: float = 0.05,
    sides: int = 1,
) -> Plan:
    """Listeners needed to show that the share of correct answers is above chance (or, with two sides,
    different from it) if it is `share`, with `per_listener` trials each on `items`."""
    if not (chance < share < 1 or (sides == 2 and 0 < share < 1 and share != chance)):
        raise UserError(
            f"listeners_to_detect: got a share of {share:g}; expected more than chance ({chance:g}) and "
            "less than 1."
        )
    reach = lambda n, found: power_detect(n, share, chance, alpha, found.design_effect, found.df, sides)
    words = f"share {share:g} against {chance:g}, {_words(per_listener, items, icc, item_sd, 'log odds')}"
    return _smallest(
        reach, _of_shares(share, per_listener, items, icc, item_sd), per_listener, power, alpha, words
    )


def listeners_for_equivalence(
    bound: float,
    per_listener: int,
    items: int,
    share: float | None = None,
    chance: float = 0.5,
    icc: float = ICC,
    item_sd: float = ITEM_SD,
    power: float = 0.8,
    alpha: float = 0.05,
    sides: int = 1,
) -> Plan:
    """Listeners needed to call a change inaudible: to show that the share of correct answers is within
    `bound` of chance if it is `share` (default: chance), and that few listeners may hear it. Two sides: a
    preference for either."""
    true = chance if share is None else share
    if not abs(true - chance) < bound < min(chance, 1 - chance):
        raise UserError(
            f"listeners_for_equivalence: expected a bound above the distance of the true share "
            f"({true:g}) from chance, got {bound:g}."
        )

    def reach(n: int, found: Spread) -> float:
        asked = [per_listener] * (n // per_listener)
        return power_equivalence(asked, bound, true, chance, alpha, found.design_effect, found.df, icc, sides)

    may = (
        f"at most {100 * FEW:.0f} % of listeners who may "
        f"{'have a clear preference' if sides == 2 else 'hear it'}"
    )
    words = (
        f"share {true:g} within {bound:g} of {chance:g} and {may}, "
        f"{_words(per_listener, items, icc, item_sd, 'log odds')}"
    )
    return _smallest(
        reach, _of_shares(true, per_listener, items, icc, item_sd), per_listener, power, alpha, words, STEPS
    )


def listeners_for_shift(
    shift: float,
    per_condition: int,
    items: int,
    nested: bool = True,
    icc: float = ICC,
    item_sd: float = ITEM_SD,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Plan:
    """Listeners needed to show, two-sided, that one condition is rated `shift` standard deviations of a
    single rating higher than another, if each listener rates `per_condition` items of both. Nested: each
    condition has items of its own. Half of the variance between listeners, and half of that between items
    heard in both conditions, is assumed to be common to both conditions and to cancel."""
    if shift == 0 or per_condition < 1:
        raise UserError(
            f"listeners_for_shift: expected a shift other than 0 and at least one rating of each "
            f"condition, got a shift of {shift:g} and {per_condition} ratings."
        )
    from scipy.stats import t

    def expected(listeners: int) -> Spread:
        design = _design(listeners, per_condition, items, "nested" if nested else "crossed")
        return design.expected(icc / (1 - icc) / 2, item_sd**2 if nested else item_sd**2 / 2, 1.0)

    def reach(n: int, found: Spread) -> float:
        cut, away = float(t.ppf(1 - alpha / 2, found.df)), abs(shift) / math.sqrt(found.variance)
        return _beyond(cut, found.df, away, sides=2)

    words = (
        f"shift {shift:g} of a rating's spread, "
        f"{_words(per_condition, items, icc, item_sd, 'of that spread')} of each condition"
    )
    return _smallest(reach, expected, 2 * per_condition, power, alpha, words)


def expected_of_share(
    share: float, listeners: int, per_listener: int, items: int, icc: float = ICC, item_sd: float = ITEM_SD
) -> Spread:
    """Expected design effect and degrees of freedom of a share."""
    return _of_shares(share, per_listener, items, icc, item_sd)(listeners)


def _words(per_listener: int, items: int, icc: float, item_sd: float, unit: str) -> str:
    return (
        f"{per_listener} trials each on {items} items, intraclass correlation {icc:g}, items spread by "
        f"{item_sd:g} {unit}"
    )


def _of_shares(
    share: float, per_listener: int, items: int, icc: float, item_sd: float
) -> Callable[[int], Spread]:
    whole = share * (1 - share)
    of_items = item_variance(share, item_sd)
    of_listeners = min(icc * whole, whole - of_items)
    return lambda listeners: _design(listeners, per_listener, items, "").expected(
        of_listeners, of_items, whole - of_items - of_listeners
    )


def item_variance(share: float, item_sd: float) -> float:
    """Variance between items of a share whose log odds have the standard deviation `item_sd` and whose mean
    is `share`."""
    from scipy.optimize import brentq
    from scipy.special import expit

    x, w = np.polynomial.hermite_e.hermegauss(40)
    w = w / w.sum()
    middle = float(brentq(lambda b: float(w @ expit(b + item_sd * x)) - share, -60, 60))
    return float(w @ (expit(middle + item_sd * x) - share) ** 2)


@cache
def _design(listeners: int, per_listener: int, items: int, conditions: str) -> Crossing:
    """A design in which every listener takes the next `per_listener` items in turn, in two conditions with
    the same items or with items of their own."""
    who = np.repeat(np.arange(listeners), per_listener)
    what = np.arange(listeners * per_listener) % items
    if not conditions:
        return Crossing(who, what)
    again = what + items if conditions == "nested" else what
    second = np.arange(2 * len(who)) >= len(who)
    return Crossing(np.tile(who, 2), np.concatenate([what, again]), second)


def _smallest(
    power_at: Callable[[int, Spread], float],
    expected: Callable[[int], Spread],
    per_listener: int,
    power: float,
    alpha: float,
    words: str,
    steps: int = 0,
) -> Plan:
    """The smallest sufficient number of listeners, by bisection, since power increases with listeners. If it
    has steps, it must also suffice for the next `steps` numbers of listeners."""

    def found(listeners: int) -> tuple[Spread, float]:
        spread = expected(min(listeners, LARGEST_DESIGN))
        if listeners > LARGEST_DESIGN:
            spread = _extrapolated(expected, listeners)
        return spread, power_at(listeners * per_listener, spread)

    low, high = 1, 2
    while found(high)[1] < power:
        low, high = high, 2 * high
        if high > MOST:
            raise UserError(
                f"power {power:g} is not reached with {MOST} listeners ({words}). Plan for a larger effect, "
                "or use more items or trials."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if found(middle)[1] < power else (low, middle)
    spread = found(high)[0]  # a few more listeners do not change the design effect
    high = max(
        (n + 1 for n in range(high, high + steps) if power_at(n * per_listener, spread) < power), default=high
    )
    spread, reached = found(high)
    return Plan(high, high * per_listener, high * per_listener / spread.design_effect, reached, alpha, words)


def _extrapolated(expected: Callable[[int], Spread], listeners: int) -> Spread:
    """The variance is a constant from items plus a part that decreases with listeners: a line in 1 /
    listeners through two designs."""
    near, far = expected(LARGEST_DESIGN // 2), expected(LARGEST_DESIGN)
    slope = (near.variance - far.variance) / (2 / LARGEST_DESIGN - 1 / LARGEST_DESIGN)
    variance: Any = far.variance + slope * (1 / listeners - 1 / LARGEST_DESIGN)
    return Spread(
        None, variance, far.df, variance / (far.variance / far.design_effect * LARGEST_DESIGN / listeners)
    )
