"""Trial types answered with a number: distributions by condition, whether they differ, and the summary of a
MUSHRA test."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from limen.core.components import parse
from limen.core.errors import UserError
from limen.listening.analysis.breakdowns import cells, estimate, mean_of, share_of, split_by, units
from limen.listening.analysis.result_types import Comparison, Estimate, Rated, Ratings, Where
from limen.listening.statistics.agreement import krippendorff_alpha
from limen.listening.statistics.proportions import holm
from limen.listening.statistics.ratings import compare_ratings, mushra, mushra_rejected
from limen.listening.statistics.samples import SampledMean, sampled_mean
from limen.listening.study import Study

Row = Mapping[str, Any]


def ratings(study: Study, kind: str, rows: Sequence[Row], seed: int) -> Rated:
    """A scale of a few steps."""
    levels = _levels(study, rows)
    k = len(levels)
    good_from, bad_to = levels[min(math.ceil(0.6 * k), k - 1)], levels[max(math.floor(0.4 * k) - 1, 0)]
    every = cells(study, rows)
    found = tuple(_cell(where, mine, levels, good_from, bad_to, seed) for where, mine in every if mine)
    compared = [
        c for where, mine in every if "condition" not in where.keys for c in compare(study, where, mine, seed)
    ]
    return Rated(kind, levels, good_from, bad_to, found, tuple(compared), _agreement(rows, "ordinal", seed))


def sliders(study: Study, kind: str, rows: Sequence[Row], seed: int) -> tuple[Rated, list[str]]:
    """MUSHRA: 0 to 100, judged over listeners; and remarks about listeners who missed the hidden
    reference."""
    options: Any = parse("trials", study.steps[rows[0]["step"]])[1]
    first = next(i for i in study.items if i.id == rows[0]["item"])
    reference = options.reference or next(iter(first.files))
    good_from, bad_to = 60.0, 40.0
    found, compared = [], []
    for where, mine in cells(study, rows):
        if not mine or where.keys[-1:] == ("condition",):
            continue
        found.append(_cell(where, mine, (), good_from, bad_to, seed))
        if any(r["condition"] == reference for r in mine):
            summary = mushra(
                [str(r["listener"]) for r in mine],
                [r["condition"] for r in mine],
                [r["rating"] for r in mine],
                reference,
            )
            of = {line.condition: [r for r in mine if r["condition"] == line.condition] for line in summary}
            against = []
            for line in summary:
                inner = Where((*where.keys, "condition"), (*where.values, line.condition))
                cell = _cell(inner, of[line.condition], (), good_from, bad_to, seed)
                found.append(replace(cell, median=line.median, quartiles=line.quartiles))
                if line.p_holm is not None:
                    names = (reference, line.condition)
                    method = "Wilcoxon over listeners, Holm-corrected"
                    against.append(
                        _comparison(where, names, of[reference], of[line.condition], line.p_holm, 0.0, method)
                    )
            # every condition is compared with the reference: one family
            corrected = iter(holm([c.p for c in against if c.p is not None]).p)
            compared += [c if c.p is None else replace(c, p=next(corrected)) for c in against]
    missed = mushra_rejected(
        [str(r["listener"]) for r in rows],
        [r["condition"] for r in rows],
        [r["rating"] for r in rows],
        reference,
    )
    note = (
        f"{kind}: listener {', '.join(missed)} rated the hidden reference below 90 for more than 15 % of the "
        "items. ITU-R BS.1534-3 would leave them out; only a rule of the study file does so here."
    )
    return Rated(
        kind, (), good_from, bad_to, tuple(found), tuple(compared), _agreement(rows, "interval", seed)
    ), [note] if missed else []


def _levels(study: Study, rows: Sequence[Row]) -> tuple[float, ...]:
    """Steps of the scale: those of the study file, or those between the lowest and the highest given."""
    anchors = getattr(parse("trials", study.steps[rows[0]["step"]])[1], "anchors", None)
    given = sorted({row["rating"] for row in rows})
    if anchors:
        return tuple(float(k) for k in range(1, len(anchors) + 1))
    return (
        tuple(float(k) for k in range(math.floor(given[0]), math.ceil(given[-1]) + 1))
        if given[-1] - given[0] <= 10
        else tuple(given)
    )


def _cell(
    where: Where, rows: Sequence[Row], levels: Sequence[float], good_from: float, bad_to: float, seed: int
) -> Ratings:
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
    by = [(inner.values[0], mine) for inner, mine in split_by(study, rows, "condition")]
    return [_compared(where, (a, b), first, second, seed) for (a, first), (b, second) in combinations(by, 2)]


def _compared(
    where: Where, names: tuple[str, str], first: Sequence[Row], second: Sequence[Row], seed: int
) -> Comparison:
    plain = compare_ratings([r["rating"] for r in first], [r["rating"] for r in second], seed)
    words = {"exact": "exact multinomial test"}.get(plain.method, "multinomial test by simulation")
    return _comparison(where, names, first, second, plain.p, plain.error, words)


def _comparison(
    where: Where,
    names: tuple[str, str],
    first: Sequence[Row],
    second: Sequence[Row],
    p: float,
    error: float,
    method: str,
) -> Comparison:
    held = contrast(first, second, [r["rating"] for r in (*first, *second)])
    return Comparison(where, names, estimate(held), held.p, held.df, held.over, p, error, method)


def contrast(first: Sequence[Row], second: Sequence[Row], values: Sequence[float]) -> SampledMean:
    """Mean of the second rows less that of the first, over listeners and items."""
    rows = [*first, *second]
    sides = [False] * len(first) + [True] * len(second)
    return sampled_mean(values, [r["listener"] for r in rows], [r["item"] for r in rows], sides)


def _agreement(rows: Sequence[Row], scale: Any, seed: int) -> Estimate:
    try:
        found = krippendorff_alpha(units(rows, lambda row: float(row["rating"])), scale, seed=seed)
    except UserError:  # nobody heard what somebody else heard
        return Estimate(None)
    return Estimate(found.value, found.low, found.high, "items")
