r"""Comparison of the ratings of two conditions, and summaries of MUSHRA tests.

The exact test is conditional on the total number of each rating. With r_j ratings of kind j, n of them in
the first condition:

    P(x) = prod_j C(r_j, x_j) / C(N, n),
        p = sum of P(x) over all tables x that are not more probable than the observed one

(Freeman & Halton 1951, https://doi.org/10.1093/biomet/38.1-2.141). Tables are enumerated by halves, which are
sorted by probability and combined, so that five ratings with hundreds of answers are still exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL, t_interval
from limen.listening.statistics.proportions import holm

ENUMERABLE = 3_000_000
"""Number of half tables beyond which permutations are sampled instead of enumerated."""
DRAWS = 20_000


@dataclass(frozen=True)
class Comparison:
    """`error`: standard error of a sampled p-value; 0 if it is exact."""

    method: Literal["exact", "permutation"]
    p: float
    error: float
    categories: tuple[Any, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    mean_difference: float | None
    """Mean rating of the second minus that of the first; None if ratings are not numbers."""


@dataclass(frozen=True)
class MushraRow:
    """Statistics over n listeners of their mean scores: Student's interval, Wilcoxon's signed-rank test
    against the reference."""

    condition: str
    n: int
    mean: float
    low: float | None
    high: float | None
    median: float
    quartiles: tuple[float, float]
    p_reference: float | None
    p_holm: float | None


def compare_ratings(first: Sequence[Any], second: Sequence[Any], seed: int = 0) -> Comparison:
    """Compare the ratings of two conditions under the assumption of independence; `sampled_mean` accounts for
    listeners and items."""
    categories, a, b = _table(first, second)
    order = np.argsort(-(a + b), kind="stable")
    # alternate, so that both halves get large rows
    parts, seen = ((a + b)[order][::2], (a + b)[order][1::2]), np.concatenate([a[order][::2], a[order][1::2]])
    if max(np.prod(part + 1.0) for part in parts) <= ENUMERABLE:
        return Comparison(
            "exact",
            _exact(parts, seen, int(a.sum())),
            0.0,
            categories,
            _ints(a),
            _ints(b),
            _difference(first, second),
        )
    values = np.asarray([*(categories.index(v) for v in first), *(categories.index(v) for v in second)])
    p, error = _drawn(values, np.arange(len(values)) >= len(first), len(categories), seed)
    return Comparison("permutation", p, error, categories, _ints(a), _ints(b), _difference(first, second))


def _table(first: Sequence[Any], second: Sequence[Any]) -> tuple[tuple[Any, ...], np.ndarray, np.ndarray]:
    if not len(first) or not len(second):
        raise UserError(
            f"comparison of ratings: expected at least one rating of each condition, got "
            f"{len(first)} and {len(second)}."
        )
    categories = tuple(sorted({*first, *second}))
    a, b = (np.asarray([list(given).count(c) for c in categories]) for given in (first, second))
    return categories, a, b


def _ints(counts: np.ndarray) -> tuple[int, ...]:
    return tuple(int(v) for v in counts)


def _difference(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    numbers = all(isinstance(v, int | float | np.number) for v in (*first, *second))
    return float(np.mean(second) - np.mean(first)) if numbers else None


def _exact(parts: tuple[np.ndarray, np.ndarray], seen: np.ndarray, n: int) -> float:
    from scipy.special import gammaln

    choose = lambda r, x: gammaln(r + 1) - gammaln(x + 1) - gammaln(r - x + 1)
    observed = float(choose(np.concatenate(parts), seen).sum())
    sums, logs = zip(*(_fillings(part, choose) for part in parts), strict=True)
    total = float(choose(sum(int(part.sum()) for part in parts), n))
    p = 0.0
    order = np.lexsort((logs[1], sums[1]))
    tails, weights = sums[1][order], logs[1][order]
    for s in np.unique(sums[0]):
        low, high = np.searchsorted(tails, [n - s, n - s + 1])
        if low == high:
            continue
        mine, theirs = logs[0][sums[0] == s], weights[low:high]
        below = np.concatenate([[0.0], np.cumsum(np.exp(theirs - theirs[-1]))])
        # 1e-7: tables as probable as the observed one count in spite of rounding
        upto = np.searchsorted(theirs, observed - mine + 1e-7, side="right")
        p += float((np.exp(mine + theirs[-1] - total) * below[upto]).sum())
    return min(1.0, p)


def _fillings(rows: np.ndarray, choose: Any) -> tuple[np.ndarray, np.ndarray]:
    """All ways to fill these rows: the number of answers used, and the logarithm of the weight of each."""
    sums, logs = np.zeros(1, int), np.zeros(1)
    for r in rows:
        x = np.arange(r + 1)
        sums, logs = np.add.outer(sums, x).ravel(), np.add.outer(logs, choose(r, x)).ravel()
    return sums, logs


def _drawn(values: np.ndarray, second: np.ndarray, categories: int, seed: int) -> tuple[float, float]:
    """Permutation p-value of the chi-square distance between both rows of the table, and its standard
    error."""
    from limen.core.seeds import number

    rng = np.random.default_rng(number(seed, "permutation"))
    one_hot = np.eye(categories)[values]
    rows = one_hot.sum(0)
    n = int(second.sum())

    def distance(labels: np.ndarray) -> np.ndarray:
        return ((labels.astype(float) @ one_hot - rows * n / len(values)) ** 2 / rows).sum(-1)

    seen, beyond = distance(second[None])[0], 0
    block = max(1, min(DRAWS, 4_000_000 // len(values)))
    for start in range(0, DRAWS, block):
        keys = rng.random((min(block, DRAWS - start), len(values)))
        beyond += int((distance(second[np.argsort(keys, axis=1)]) >= seen - 1e-9).sum())
    p = (beyond + 1) / (DRAWS + 1)
    return p, float(np.sqrt(p * (1 - p) / DRAWS))


def mushra(
    listeners: Sequence[str],
    conditions: Sequence[str],
    scores: Sequence[float],
    reference: str,
    level: float = LEVEL,
) -> tuple[MushraRow, ...]:
    """Summarise one score from 0 to 100 per entry: a row per condition, from best to worst. Items are
    averaged within listeners."""
    from scipy.stats import wilcoxon

    means: dict[str, dict[str, float]] = {}
    for condition in dict.fromkeys(conditions):
        given: dict[str, list[float]] = {}
        for who, what, score in zip(listeners, conditions, scores, strict=True):
            if what == condition:
                given.setdefault(who, []).append(float(score))
        means[condition] = {who: float(np.mean(v)) for who, v in given.items()}
    if reference not in means:
        raise UserError(
            f'mushra: there is no condition "{reference}" to compare with. Conditions: {", ".join(means)}.'
        )
    p: dict[str, float] = {}
    for condition, by in means.items():
        gaps = np.asarray([v - means[reference][who] for who, v in by.items() if who in means[reference]])
        if condition != reference and len(gaps):
            p[condition] = float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0
    adjusted = dict(zip(p, holm(list(p.values())).p, strict=True))
    rows = []
    for condition, by in sorted(means.items(), key=lambda kv: -float(np.mean(list(kv[1].values())))):
        v = np.asarray(list(by.values()))
        q = np.quantile(v, [0.25, 0.5, 0.75])
        low, high = t_interval(v, level)
        found = p.get(condition), adjusted.get(condition)
        rows.append(
            MushraRow(
                condition, len(v), float(v.mean()), low, high, float(q[1]), (float(q[0]), float(q[2])), *found
            )
        )
    return tuple(rows)


def mushra_rejected(
    listeners: Sequence[str],
    conditions: Sequence[str],
    scores: Sequence[float],
    reference: str,
    below: float = 90,
    share: float = 0.15,
) -> tuple[str, ...]:
    """Listeners to exclude: those who rate the hidden reference below 90 for more than 15 % of the items.
    ITU-R BS.1534-3."""
    given: dict[str, list[bool]] = {}
    for who, what, score in zip(listeners, conditions, scores, strict=True):
        if what == reference:
            given.setdefault(who, []).append(score < below)
    return tuple(who for who, low in given.items() if np.mean(low) > share)
