"""Shares of correct answers under the assumption of independent answers: exact intervals, exact tests against
chance, equivalence; and corrections for multiple tests.

Answers of one listener, and answers to one item, are correlated. `sampled_share` accounts for this, and
verdicts use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL, clopper_pearson


@dataclass(frozen=True)
class Proportion:
    """`low` and `high`: Clopper-Pearson. `p_greater`, `p_two_sided`: exact binomial tests against
    `chance`."""

    successes: int
    n: int
    share: float
    low: float
    high: float
    chance: float
    p_greater: float
    p_two_sided: float


@dataclass(frozen=True)
class Equivalence:
    """Whether a share is within `bound` of chance. `p` is the larger of both one-sided p-values;
    `equivalent` is p < alpha."""

    successes: int
    n: int
    share: float
    chance: float
    bound: float
    p_not_below: float
    p_not_above: float
    p: float
    equivalent: bool
    low: float
    high: float
    """Interval of level 1 - 2 alpha: equivalent exactly if it is inside chance -+ bound."""


@dataclass(frozen=True)
class Adjusted:
    """p-values in the given order, adjusted so that `p < alpha` controls the error rate of all tests
    together."""

    method: str
    p: tuple[float, ...]


def check_counts(who: str, successes: int, n: int) -> None:
    if n < 1 or not 0 <= successes <= n:
        raise UserError(
            f"{who}: expected a count between 0 and a total of at least 1, got {successes} of {n}."
        )


def proportion(successes: int, n: int, chance: float = 0.5, level: float = LEVEL) -> Proportion:
    from scipy.stats import binomtest

    check_counts("proportion", successes, n)
    low, high = clopper_pearson(successes, n, level)
    greater, both = (
        float(binomtest(successes, n, chance, alternative=side).pvalue) for side in ("greater", "two-sided")
    )
    return Proportion(successes, n, successes / n, low, high, chance, greater, both)


def equivalence(
    successes: int, n: int, bound: float, chance: float = 0.5, alpha: float = 0.05
) -> Equivalence:
    """Two one-sided exact binomial tests (Schuirmann 1987, https://doi.org/10.1007/BF01068419): to show that
    a change is inaudible takes a bound and a test that can fail; p > 0.05 in a test against chance is no
    evidence for it."""
    from scipy.stats import binom

    check_counts("equivalence", successes, n)
    if not 0 < bound < min(chance, 1 - chance) + 1e-12:
        raise UserError(
            f"equivalence: expected a bound above 0 and at most the distance of chance ({chance:g}) "
            f"from 0 and 1, got {bound:g}."
        )
    not_below = float(binom.sf(successes - 1, n, max(0.0, chance - bound)))
    not_above = float(binom.cdf(successes, n, min(1.0, chance + bound)))
    p = max(not_below, not_above)
    low, high = clopper_pearson(successes, n, 1 - 2 * alpha)
    return Equivalence(
        successes, n, successes / n, chance, bound, not_below, not_above, p, p < alpha, low, high
    )


def holm(p: Sequence[float]) -> Adjusted:
    """Controls the probability of any false alarm. Holm 1979, https://www.jstor.org/stable/4615733."""
    order, values = _ordered(p)
    stepped = np.maximum.accumulate(values * np.arange(len(values), 0, -1))
    return Adjusted("Holm", _restored(order, stepped))


def benjamini_hochberg(p: Sequence[float]) -> Adjusted:
    """Controls the expected share of false alarms among discoveries. Benjamini & Hochberg 1995,
    https://doi.org/10.1111/j.2517-6161.1995.tb02031.x."""
    order, values = _ordered(p)
    stepped = np.minimum.accumulate((values * len(values) / np.arange(1, len(values) + 1))[::-1])[::-1]
    return Adjusted("Benjamini-Hochberg", _restored(order, stepped))


def _ordered(p: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(p, float)
    if not ((values >= 0) & (values <= 1)).all():
        raise UserError(f"multiple tests: expected p-values from 0 to 1, got {list(p)}.")
    order = np.argsort(values, kind="stable")
    return order, values[order]


def _restored(order: np.ndarray, stepped: np.ndarray) -> tuple[float, ...]:
    out = np.empty(len(order))
    out[order] = np.minimum(stepped, 1.0)
    return tuple(out.tolist())
