"""Ratings under one condition, and comparisons of two conditions."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from limen.core.errors import UserError
from limen.listening.analysis.breakdowns import estimate, mean_of, share_of, split_by, units
from limen.listening.analysis.result_types import Comparison, Ratings
from limen.listening.statistics.agreement import krippendorff_alpha
from limen.listening.statistics.ratings import compare_ratings
from limen.listening.statistics.samples import SampledMean, sampled_mean
from limen.listening.study import Study
from limen.trials.base.findings import Estimate, Row, Where


def cell(
    where: Where, rows: Sequence[Row], levels: Sequence[float], good_from: float, bad_to: float
) -> Ratings:
    """`levels` are the steps of the scale; empty: it goes from 0 to 100."""
    given = np.asarray([row["rating"] for row in rows], float)
    q = np.quantile(given, [0.25, 0.5, 0.75])
    return Ratings(
        where=where,
        n=len(given),
        counts=tuple(int((given == level).sum()) for level in levels),
        mean=mean_of(given.tolist(), rows, (levels[0], levels[-1]) if levels else (0.0, 100.0)),
        median=float(q[1]),
        quartiles=(float(q[0]), float(q[2])),
        good=share_of(rows, (given >= good_from).tolist()),
        good_n=int((given >= good_from).sum()),
        bad_n=int((given <= bad_to).sum()),
    )


def compare(study: Study, where: Where, rows: Sequence[Row], seed: int) -> list[Comparison]:
    """Every pair of conditions."""
    by = [(inner.values[0], part) for inner, part in split_by(study, rows, "condition")]
    return [_compared(where, (a, b), first, second, seed) for (a, first), (b, second) in combinations(by, 2)]


def _compared(
    where: Where, names: tuple[str, str], first: Sequence[Row], second: Sequence[Row], seed: int
) -> Comparison:
    plain = compare_ratings([r["rating"] for r in first], [r["rating"] for r in second], seed)
    words = {"exact": "exact multinomial test"}.get(plain.method, "multinomial test by simulation")
    return comparison(where, names, first, second, plain.p, plain.error, words)


def comparison(
    where: Where,
    names: tuple[str, str],
    first: Sequence[Row],
    second: Sequence[Row],
    p: float,
    error: float,
    method: str,
) -> Comparison:
    """`p`, its simulation `error` and `method` are those of a test that assumes independent answers."""
    sampled = contrast(first, second, [r["rating"] for r in (*first, *second)])
    return Comparison(where, names, estimate(sampled), sampled.p, sampled.df, sampled.over, p, error, method)


def contrast(first: Sequence[Row], second: Sequence[Row], values: Sequence[float]) -> SampledMean:
    """Mean of the second rows minus mean of the first, over listeners and items."""
    rows = [*first, *second]
    sides = [False] * len(first) + [True] * len(second)
    return sampled_mean(values, [r["listener"] for r in rows], [r["item"] for r in rows], sides)


def agreement(rows: Sequence[Row], scale: Any, seed: int) -> Estimate:
    """Krippendorff's alpha; no value if no two listeners rated the same item and condition."""
    try:
        found = krippendorff_alpha(units(rows, lambda row: float(row["rating"])), scale, seed=seed)
    except UserError:
        return Estimate(None)
    return Estimate(found.value, found.low, found.high, "items")
