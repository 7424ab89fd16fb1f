"""Trial types answered with a number: distributions by condition, whether they differ, and the summary of a MUSHRA test."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from limen.components import parse
from limen.errors import UserError
from limen.listening._cells import cells, clustered, split_by, units
from limen.listening._parts import Comparison, Estimate, Rated, Ratings, Where
from limen.listening.statistics import compare_ratings, compare_ratings_within, krippendorff_alpha, mushra, mushra_rejected
from limen.listening.study import Study
from limen.statistics import clopper_pearson

Row = Mapping[str, Any]


def ratings(study: Study, kind: str, rows: Sequence[Row], seed: int) -> Rated:
    """A scale of a few steps."""
    levels = _levels(study, rows)
    k = len(levels)
    good_from, bad_to = levels[min(math.ceil(0.6 * k), k - 1)], levels[max(math.floor(0.4 * k) - 1, 0)]
    every = cells(study, rows)
    found = tuple(_cell(where, mine, levels, good_from, bad_to, seed) for where, mine in every if mine)
    compared = [c for where, mine in every if "condition" not in where.keys for c in compare(study, where, mine, seed)]
    return Rated(kind, levels, good_from, bad_to, found, tuple(compared), _agreement(rows, "ordinal", seed))


def sliders(study: Study, kind: str, rows: Sequence[Row], seed: int) -> tuple[Rated, list[str]]:
    """MUSHRA: 0 to 100, judged over listeners; and remarks about listeners who missed the hidden reference."""
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
            summary = mushra([str(r["listener"]) for r in mine], [r["condition"] for r in mine], [r["rating"] for r in mine], reference)
            for line in summary:
                inner = Where((*where.keys, "condition"), (*where.values, line.condition))
                theirs = [r for r in mine if r["condition"] == line.condition]
                cell = _cell(inner, theirs, (), good_from, bad_to, seed)
                over_listeners = Estimate(line.mean, line.low, line.high)
                found.append(replace(cell, mean=over_listeners, median=line.median, quartiles=line.quartiles))
                if line.p_holm is not None:
                    compared.append(_against(where, reference, line.condition, line.p_holm, mine, seed))
    missed = mushra_rejected([str(r["listener"]) for r in rows], [r["condition"] for r in rows], [r["rating"] for r in rows], reference)
    note = (
        f"{kind}: listener {', '.join(missed)} rated the hidden reference below 90 for more than 15 % of the items. ITU-R BS.1534-3 would "
        "leave them out; only a rule of the study file does so here."
    )
    return Rated(kind, (), good_from, bad_to, tuple(found), tuple(compared), _agreement(rows, "interval", seed)), [note] if missed else []


def _levels(study: Study, rows: Sequence[Row]) -> tuple[float, ...]:
    """Steps of the scale: those of the study file, or those between the lowest and the highest given."""
    anchors = getattr(parse("trials", study.steps[rows[0]["step"]])[1], "anchors", None)
    given = sorted({row["rating"] for row in rows})
    if anchors:
        return tuple(float(k) for k in range(1, len(anchors) + 1))
    return tuple(float(k) for k in range(math.floor(given[0]), math.ceil(given[-1]) + 1)) if given[-1] - given[0] <= 10 else tuple(given)


def _cell(where: Where, rows: Sequence[Row], levels: Sequence[float], good_from: float, bad_to: float, seed: int) -> Ratings:
    given = np.asarray([row["rating"] for row in rows], float)
    q = np.quantile(given, [0.25, 0.5, 0.75])
    good = int((given >= good_from).sum())
    return Ratings(
        where=where,
        n=len(given),
        counts=tuple(int((given == level).sum()) for level in levels),
        mean=_mean(rows, seed),
        median=float(q[1]),
        quartiles=(float(q[0]), float(q[2])),
        good=Estimate(good / len(given), *clopper_pearson(good, len(given))),
        good_n=good,
        bad_n=int((given <= bad_to).sum()),
    )


def _mean(rows: Sequence[Row], seed: int, contrast: Sequence[bool] | None = None) -> Estimate:
    return clustered([row["rating"] for row in rows], rows, contrast, seed)


def compare(study: Study, where: Where, rows: Sequence[Row], seed: int) -> list[Comparison]:
    """Every pair of conditions."""
    by = [(inner.values[0], mine) for inner, mine in split_by(study, rows, "condition")]
    out = []
    for (a, first), (b, second) in combinations(by, 2):
        exact = compare_ratings([r["rating"] for r in first], [r["rating"] for r in second], seed)
        words = {"exact": "exact multinomial test"}.get(exact.method, "multinomial test by simulation")
        within = p_within([*first, *second], [False] * len(first) + [True] * len(second), "rating", seed)
        gap = _mean([*first, *second], seed, [False] * len(first) + [True] * len(second))
        out.append(Comparison(where, (a, b), exact.p, exact.error, words, within, gap))
    return out


def p_within(rows: Sequence[Row], second: Sequence[bool], column: str, seed: int) -> float | None:
    """Permutation within listeners; None if nobody met both conditions."""
    sides: dict[Any, set[bool]] = {}
    for row, side in zip(rows, second, strict=True):
        sides.setdefault(row["listener"], set()).add(side)
    if all(len(met) < 2 for met in sides.values()):
        return None
    return compare_ratings_within([row["listener"] for row in rows], second, [row[column] for row in rows], seed).p


def _against(where: Where, reference: str, condition: str, p: float, rows: Sequence[Row], seed: int) -> Comparison:
    both = [r for r in rows if r["condition"] in (reference, condition)]
    gap = _mean(both, seed, [r["condition"] == condition for r in both])
    return Comparison(where, (reference, condition), p, 0.0, "Wilcoxon over listeners, Holm-corrected", None, gap)


def _agreement(rows: Sequence[Row], scale: Any, seed: int) -> Estimate:
    try:
        found = krippendorff_alpha(units(rows, lambda row: float(row["rating"])), scale, seed=seed)
    except UserError:  # nobody heard what somebody else heard
        return Estimate(None)
    return Estimate(found.value, found.low, found.high)
