"""Rows -> numbers with n and 95 % intervals: a share, a rate of the whole set, or a mean and a median, as the
column declares.

Nulls are left out and counted. Readers take the number of a column from `figure`, so that every table says
the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limen.core.statistics import pooled, t_interval, wilson
from limen.metrics.base.metric import Column

Rows = Sequence[Mapping[str, Any]]


def summarise(rows: Rows, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Column -> its summary; `columns` is what `limen.metrics.base.apply.columns(metrics)` gives. All have n,
    low, high, missing, unit, better.

    Binary: mean = count / n; with `unless`, n counts the samples that are not `left_out`. Pooled: rate =
    count / total, `of` names the two columns that were added up; the mean over samples stands apart as
    `<column>_mean`. Others: mean and median.
    """
    out: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        if column.pooled is None:
            out[name] = _mean(rows, name, column)
        else:
            out[name] = _rate(rows, column, *column.pooled)
            out[f"{name}_mean"] = _mean(rows, name, column)
    return out


def figure(summary: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    """The number of a column and its 95 % interval: the rate of the set if the column is pooled, else the
    mean, which may be a share."""
    return summary["rate" if "rate" in summary else "mean"], summary["low"], summary["high"]


def typical(summary: Mapping[str, Any]) -> tuple[str, float | None]:
    """What narrow tables show of a column, and what it is: "rate" of the set, "share" of the samples, or
    "median" over them."""
    if "rate" in summary:
        return "rate", summary["rate"]
    return ("share", summary["mean"]) if "count" in summary else ("median", summary["median"])


def _rate(rows: Rows, column: Column, errors: str, words: str) -> dict[str, Any]:
    known = [
        (row[errors], row[words])
        for row in rows
        if row.get(errors) is not None and row.get(words) is not None
    ]
    counts, totals = [e for e, _ in known], [n for _, n in known]
    whole = pooled(counts, totals)
    return {
        "n": len(known),
        "rate": whole["mean"],
        "low": whole["low"],
        "high": whole["high"],
        "count": float(sum(counts)),
        "total": float(sum(totals)),
        "of": [errors, words],
        "missing": len(rows) - len(known),
        "unit": column.unit,
        "better": column.better,
    }


def _mean(rows: Rows, name: str, column: Column) -> dict[str, Any]:
    among = [row for row in rows if not row.get(column.unless)] if column.unless else rows
    values = np.array([row[name] for row in among if row.get(name) is not None], float)
    low: float | None = None
    high: float | None = None
    if len(values) and column.binary:
        low, high = wilson(float(values.sum()), len(values))
    elif len(values):
        low, high = t_interval(values)
        if column.share and low is not None and high is not None:
            low, high = max(low, 0.0), min(high, 1.0)
    return {
        "n": len(values),
        "mean": float(values.mean()) if len(values) else None,
        "low": low,
        "high": high,
        "median": float(np.median(values)) if len(values) else None,
        **({"count": int(values.sum())} if column.binary else {}),
        **({"left_out": len(rows) - len(among), "unless": column.unless} if column.unless else {}),
        "missing": len(among) - len(values),
        "unit": column.unit,
        "better": column.better,
    }
