"""Answers grouped into cells: all of them, by group, by condition, by each factor, and by factor and
condition."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from limen.listening.analysis.columns import factor_columns
from limen.listening.statistics.samples import SampledMean, SampledShare, sampled_mean, sampled_share
from limen.listening.study import Hypothesis, Study
from limen.trials.base.findings import Estimate, Row, Where

MOST = 40
"""Number of values beyond which results are not grouped by a key: it identifies single answers."""


def keys(study: Study) -> dict[str, str]:
    """Keys that results are grouped by -> their columns."""
    return {"condition": "condition", **factor_columns(study), "group": "group"}


def key_of(h: Hypothesis) -> str | None:
    """Key for each value of which a hypothesis is tested. "Do ratings differ by condition?" compares
    conditions, so there is nothing left to split by."""
    return None if (h.kind, h.by) == ("different", "condition") else h.by


def value(row: Row, column: str) -> str:
    """A value as text; 1 and 1.0 are the same."""
    v = row.get(column)
    return "" if v is None else f"{v:g}" if isinstance(v, int | float) and not isinstance(v, bool) else str(v)


def order(study: Study, key: str, found: set[str]) -> list[str]:
    """Values in the order of the study file."""
    if key == "group":
        known = study.cells
    elif key == "condition":
        known = [c for item in study.items for c in item.files]
    else:
        known = [value(item.factors, key) for item in study.items if key in item.factors]
    listed = [v for v in dict.fromkeys(known) if v in found]
    return listed + sorted(found - set(listed))


def cells(study: Study, rows: Sequence[Row]) -> list[tuple[Where, list[Row]]]:
    """All answers first; then each key that has more than one value, a factor also by condition."""
    several = [
        key
        for key, column in keys(study).items()
        if 1 < len({value(row, column) for row in rows} - {""}) <= MOST
    ]
    out = [(Where(), list(rows))]
    for key in several:
        out += split_by(study, rows, key)
        if key not in ("group", "condition") and "condition" in several:
            for where, mine in split_by(study, rows, key):
                out += [
                    (Where((key, "condition"), where.values + i.values), part)
                    for i, part in split_by(study, mine, "condition")
                ]
    return out


def split_by(study: Study, rows: Sequence[Row], key: str | None) -> list[tuple[Where, list[Row]]]:
    """One cell for each value of a key, even if there is only one; all answers for no key."""
    if key is None:
        return [(Where(), list(rows))]
    column = keys(study)[key]
    found = {value(row, column) for row in rows} - {""}
    return [
        (Where((key,), (v,)), [r for r in rows if value(r, column) == v]) for v in order(study, key, found)
    ]


def too_many(study: Study, rows: Sequence[Row]) -> list[str]:
    """Keys with too many values for results to be grouped by."""
    return [key for key, column in keys(study).items() if len({value(row, column) for row in rows}) > MOST]


def share_of(rows: Sequence[Row], right: Sequence[bool]) -> Estimate:
    """Share of the rows for which it is true, with its interval over listeners and items."""
    found = sampled_share(right, *_listeners_and_items(rows))
    return estimate(found)


def mean_of(
    values: Sequence[float], rows: Sequence[Row], within: tuple[float, float] | None = None
) -> Estimate:
    """Mean of a value per row with its interval over listeners and items; `within` are the ends of the
    scale."""
    found = sampled_mean(values, *_listeners_and_items(rows), within=within or (-math.inf, math.inf))
    return estimate(found)


def estimate(found: SampledShare | SampledMean) -> Estimate:
    return Estimate(found.value, found.low, found.high, found.over, found.items)


def _listeners_and_items(rows: Sequence[Row]) -> tuple[list[Any], list[Any]]:
    return [row["listener"] for row in rows], [row["item"] for row in rows]


def units(rows: Sequence[Row], number: Callable[[Row], float | None]) -> list[list[float | None]]:
    """(listeners, items and conditions): each listener's first answer to each item and condition; None if
    there is none."""
    columns = {pair: k for k, pair in enumerate(dict.fromkeys((r["item"], r["condition"]) for r in rows))}
    listeners: dict[Any, list[float | None]] = {}
    for row in rows:
        mine = listeners.setdefault(row["listener"], [None] * len(columns))
        k = columns[row["item"], row["condition"]]
        if mine[k] is None:
            mine[k] = number(row)
    return list(listeners.values())
