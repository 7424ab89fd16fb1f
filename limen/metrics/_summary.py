"""Rows -> numbers with n and 95 % intervals. Nulls are left out of a mean and counted beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limen.metrics._metric import Column
from limen.statistics import pooled, t_interval, wilson


def summarise(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Column -> {n, mean, low, high, median, missing, unit, better}, and `pooled` {mean, low, high} for rates of a whole set.

    `columns` is what `limen.metrics._apply.columns(metrics)` gives. `n` counts the numbers, `missing` the nulls.
    """
    return {name: _one(rows, name, column) for name, column in columns.items()}


def _one(rows: Sequence[Mapping[str, Any]], name: str, column: Column) -> dict[str, Any]:
    values = np.array([row[name] for row in rows if row.get(name) is not None], float)
    low: float | None = None
    high: float | None = None
    if len(values) and column.binary:
        low, high = wilson(float(values.sum()), len(values))
    elif len(values):
        low, high = t_interval(values)
        if column.share and low is not None and high is not None:
            low, high = max(low, 0.0), min(high, 1.0)
    summary: dict[str, Any] = {
        "n": len(values),
        "mean": float(values.mean()) if len(values) else None,
        "low": low,
        "high": high,
        "median": float(np.median(values)) if len(values) else None,
        "missing": len(rows) - len(values),
        "unit": column.unit,
        "better": column.better,
    }
    if column.pooled:
        counts = [(row.get(column.pooled[0]), row.get(column.pooled[1])) for row in rows]
        known = [(e, n) for e, n in counts if e is not None and n is not None]
        summary["pooled"] = pooled([e for e, _ in known], [n for _, n in known])
    return summary
