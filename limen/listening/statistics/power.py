r"""How many listeners a study needs, before it is launched: the power of the very tests that will be run.

Answers of one listener, and answers to one item, resemble each other. Of a share p, listeners make the part
icc of the variance p (1 - p), items that of log odds with a spread of `item_sd`. What design effect D and how
many degrees of freedom such a study is expected to have is worked out for its design (`Crossing.expected`);
the power is then that of Student's t with the share as its mean,

    P( T > t ),     T ~ noncentral t,  (p - chance) / sqrt(D p (1 - p) / n)  from 0

Equivalence is answered with yes only if few listeners may hear it, so its power is that of the two one-sided
tests times the chance that the bound of listeners says so (`limen.listening.statistics.hearers.power_few`).
Simulated studies stand beside all of it in docs/benchmarks_statistics.md. Items are as many as the study has:
more listeners do not make up for few items.
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
"""Listeners that are thought of."""
STEPS = 12
"""Listeners more from whom on another one may pass: between them power of equivalence falls a little."""
LARGEST_DESIGN = 400
"""Listeners up to which the design is worked out; beyond, degrees of freedom no longer grow with listeners
that matter."""


@dataclass(frozen=True)
class Plan:
    listeners: int
    trials: int
    effective: float
    """Independent answers that all trials are worth."""
    power: float
    alpha: float
    assumes: str


def power_detect(
    n: int, share: float, chance: float, alpha: float, effect: float, df: float, sides: int = 1
) -> float:
    """Chance that n answers of this design effect show a share off `chance` when it is `share`; one-sided:
    above it."""
    from scipy.stats import t

    away = (share - chance) / math.sqrt(effect * share * (1 - share) / n)
    # the test takes the variance at chance, the answers have that at their share
    cut = float(t.ppf(1 - alpha / sides, df)) * math.sqrt(chance * (1 - chance) / (share * (1 - share)))
    return _beyond(cut, df, away, sides)


def _beyond(cut: float, df: float, away: float, sides: int) -> float:
    """Chance that a noncentral t is above the cut, or with two sides also below its negative."""
    from scipy.stats import nct

    # scipy has no number for the far tail
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
    """Chance that answers of this design effect are called inaudible when the share of right ones is `share`:
    shown to be within `bound` of chance, with few listeners who may hear it. `asked` are the trials of each
    listener; two sides: a preference for either."""
    from scipy.stats import chi2, norm, t

    n, low, high = sum(asked), chance - bound, chance + bound
    # over what the estimate of the variance may be: quantiles of chi-square
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
    """Listeners to find that the share of right answers is above chance (or, with two sides, off it) when it
    is `share`, each answering to so many of `items`."""
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
    """Listeners to call it inaudible: to show that the share of right answers is within `bound` of chance,
    when it is `share` (chance itself for none), and that few listeners may hear it. Two sides: a preference
    for either."""
    true = chance if share is None else share
    if not abs(true - chance) < bound < min(chance, 1 - chance):
        raise UserError(
            f"listeners_for_equivalence: got a bound of {bound:g}; expected more than the true share "
            f"({true:g}) is off chance."
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
    """Listeners to find, two-sided, that one condition is rated `shift` standard deviations of a single
    rating higher than another, each listener rating both, so many of the `items` of each. Nested: each
    condition has items of its own. Half of what a listener adds to ratings of one condition, and half of what
    an item adds that is heard in both, is taken to be the same in both and to cancel."""
    if shift == 0 or per_condition < 1:
        raise UserError(
            f"listeners_for_shift: got a shift of {shift:g}; expected another than 0, and at least one "
            "rating of each condition."
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
    """Design effect and degrees of freedom to be expected of a share."""
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
    """Variance of a share whose log odds spread by `item_sd` around what makes it `share` on average."""
    from scipy.optimize import brentq
    from scipy.special import expit

    x, w = np.polynomial.hermite_e.hermegauss(40)
    w = w / w.sum()
    middle = float(brentq(lambda b: float(w @ expit(b + item_sd * x)) - share, -60, 60))
    return float(w @ (expit(middle + item_sd * x) - share) ** 2)


@cache
def _design(listeners: int, per_listener: int, items: int, conditions: str) -> Crossing:
    """Every listener takes the next so many items in turn; in two conditions of the same items, or of items
    of their own."""
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
    """By halving: power grows with listeners. Where it has steps down, as many listeners more must not have
    less of it."""

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
                f"power {power:g} is not reached with {MOST} listeners ({words}). Ask for a larger effect, "
                "or for more items or trials."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if found(middle)[1] < power else (low, middle)
    spread = found(high)[0]  # so few listeners more change nothing about how alike answers are
    high = max(
        (n + 1 for n in range(high, high + steps) if power_at(n * per_listener, spread) < power), default=high
    )
    spread, reached = found(high)
    return Plan(high, high * per_listener, high * per_listener / spread.design_effect, reached, alpha, words)


def _extrapolated(expected: Callable[[int], Spread], listeners: int) -> Spread:
    """The variance is a constant of items and a part that falls with listeners: a line in 1 / listeners
    through two designs."""
    near, far = expected(LARGEST_DESIGN // 2), expected(LARGEST_DESIGN)
    slope = (near.variance - far.variance) / (2 / LARGEST_DESIGN - 1 / LARGEST_DESIGN)
    variance: Any = far.variance + slope * (1 / listeners - 1 / LARGEST_DESIGN)
    return Spread(
        None, variance, far.df, variance / (far.variance / far.design_effect * LARGEST_DESIGN / listeners)
    )
