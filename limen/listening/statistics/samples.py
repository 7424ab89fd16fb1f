r"""Shares, means and differences that generalise to other listeners and items: interval, tests and
equivalence from one statistic.

With the design effect D and the degrees of freedom of `limen.listening.statistics.crossed`, a share p^ of n
answers is tested by the score statistic

    T(p) = (p^ - p) / sqrt( D p (1 - p) / n )

against Student's t: a test of chance is T(chance); equivalence is two one-sided tests, T(chance - bound) and
T(chance + bound); the interval contains all p that T does not reject (Wilson 1927 with n / D answers), so
that it never contradicts the tests. Means of ratings and differences use the same variance with Student's t.
docs/benchmarks_statistics.md reports the measured level and coverage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL
from limen.listening.statistics.assumptions import ICC
from limen.listening.statistics.crossed import Crossing

ROUNDING = 1e-9
"""Standard errors below this fraction of the values are rounding errors."""


@dataclass(frozen=True)
class SampledShare:
    """With a single listener there is no interval and no test."""

    n: int
    value: float
    low: float | None
    high: float | None
    p_greater: float | None
    p_two_sided: float | None
    p_equivalent: float | None
    """None without a bound, or if it exceeds the distance of chance from 0 or 1."""
    design_effect: float | None
    """n answers are worth n / design_effect independent ones."""
    df: float | None
    over: str
    """What the result generalises over: listeners and items, listeners (one item), ..."""
    items: int
    """Number of different items."""


@dataclass(frozen=True)
class SampledMean:
    """A mean, or with `second` a difference of means and its two-sided p."""

    n: int
    value: float
    low: float | None
    high: float | None
    p: float | None
    df: float | None
    over: str
    items: int
    """Number of different items, in the condition with fewer."""


def sampled_share(
    right: Sequence[bool],
    listeners: Sequence[Any],
    items: Sequence[Any],
    chance: float = 0.5,
    bound: float | None = None,
    level: float = LEVEL,
) -> SampledShare:
    """Share of correct answers, one entry per answer. `bound`: bound of the test of equivalence with
    chance."""
    crossing = _crossing("sampled_share", right, listeners, items)
    n, over, items_ = crossing.n, crossing.over, crossing.fewest_items
    if crossing.listeners < 2:
        return SampledShare(
            n,
            float(np.mean(np.asarray(right, float))),
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            over,
            items_,
        )
    effect, df = (float(v) for v in judged(crossing, np.asarray(right, float))[1:])
    share = float(np.mean(np.asarray(right, float)))
    low, high = share_interval(share, effect, df, n, level)
    fits = bound is not None and 0 < bound < min(chance, 1 - chance)
    p_equivalent = float(p_within(share, effect, df, n, chance, bound or 0.0)) if fits else None
    above = float(p_above(share, effect, df, n, chance))
    return SampledShare(
        n,
        share,
        float(low),
        float(high),
        above,
        2 * min(above, 1 - above),
        p_equivalent,
        effect,
        df,
        over,
        items_,
    )


def judged(crossing: Crossing, right: np.ndarray) -> tuple[Any, Any, Any]:
    """(..., n) correct answers -> share, design effect, degrees of freedom. If all answers are equal, their
    correlation cannot be estimated: the assumption for planning is used."""
    spread = crossing.spread(right)
    flat = ~np.isfinite(spread.design_effect)
    effect = np.where(flat, 1 + (crossing.n / crossing.listeners - 1) * ICC, spread.design_effect)
    return spread.value, effect, np.where(flat, crossing.listeners - 1.0, spread.df)


def share_interval(share: Any, effect: Any, df: Any, n: int, level: float = LEVEL) -> tuple[Any, Any]:
    from scipy.stats import t

    q, m = t.ppf(0.5 + level / 2, df), n / effect
    middle = (share + q * q / (2 * m)) / (1 + q * q / m)
    half = q * np.sqrt(share * (1 - share) / m + q * q / (4 * m * m)) / (1 + q * q / m)
    # at 0 and 1 the end is the share itself; rounding must not exceed it
    return np.where(share == 0, 0.0, np.maximum(middle - half, 0.0)), np.where(
        share == 1, 1.0, np.minimum(middle + half, 1.0)
    )


def p_above(share: Any, effect: Any, df: Any, n: int, chance: float) -> Any:
    """One-sided p of the hypothesis that the true share is not above `chance`."""
    from scipy.stats import t

    return t.sf((share - chance) / np.sqrt(effect * chance * (1 - chance) / n), df)


def p_within(share: Any, effect: Any, df: Any, n: int, chance: float, bound: float) -> Any:
    """The larger of both one-sided p of the hypothesis that the true share is not within `bound` of
    chance."""
    return np.maximum(
        p_above(share, effect, df, n, chance - bound), 1 - p_above(share, effect, df, n, chance + bound)
    )


def sampled_mean(
    values: Sequence[float],
    listeners: Sequence[Any],
    items: Sequence[Any],
    second: Sequence[bool] | None = None,
    level: float = LEVEL,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> SampledMean:
    """Mean, or difference of two conditions, one entry per answer. `second`: whether an answer belongs to the
    second condition; `within`: ends of the scale."""
    from scipy.stats import t

    crossing = _crossing("sampled_mean", values, listeners, items, second)
    spread = crossing.spread(np.asarray(values, float))
    value, error, df = float(spread.value), math.sqrt(spread.variance), float(spread.df)
    if crossing.listeners < 2:
        return SampledMean(crossing.n, value, None, None, None, None, crossing.over, crossing.fewest_items)
    rounding = ROUNDING * float(np.abs(values).max())
    if error <= rounding:  # every listener agrees
        p = None if second is None else 1.0 if abs(value) <= rounding else crossing.sign_p()
        return SampledMean(crossing.n, value, None, None, p, None, crossing.over, crossing.fewest_items)
    half = float(t.ppf(0.5 + level / 2, df)) * error
    p = None if second is None else float(2 * t.sf(abs(value) / error, df))
    return SampledMean(
        crossing.n,
        value,
        max(within[0], value - half),
        min(within[1], value + half),
        p,
        df,
        crossing.over,
        crossing.fewest_items,
    )


def _crossing(
    who: str,
    values: Sequence[Any],
    listeners: Sequence[Any],
    items: Sequence[Any],
    second: Sequence[bool] | None = None,
) -> Crossing:
    n = len(values)
    if not n or {len(listeners), len(items), n if second is None else len(second)} != {n}:
        raise UserError(
            f"{who}: got {n} answers, {len(listeners)} listeners and {len(items)} items; expected equal "
            "numbers, at least one."
        )
    if second is not None and len({bool(s) for s in second}) < 2:
        raise UserError(f"{who}: expected answers of two conditions, got one condition only.")
    return Crossing(listeners, items, second)
