"""Summaries of rows: each column as a share, a rate of the set, or a mean and a median, with n and 95 %
intervals.

Missing values are left out and counted. Readers take the number of a column from `figure` or `typical`, so
that every table shows the same one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limen.core.statistics import pooled, t_interval, wilson
from limen.metrics.base.metric import Column

Rows = Sequence[Mapping[str, Any]]


def summarise(
    rows: Rows, columns: Mapping[str, Column], kind: str | None = None, output: str | None = None
) -> dict[str, dict[str, Any]]:
    """Column -> its summary: n, low, high, missing, and what the column declares (`described`).

    Binary: mean = count / n; with `unless`, n counts the samples that are not `left_out`. Pooled: rate =
    count / total, and `of` names the two columns that were added up; the mean over samples is
    `<column>_mean`. Others: mean and median. Columns of text are left out. `kind` of samples and `output` of
    the model decide which columns are headlines.
    """
    out: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        if column.figure == "none":
            continue
        declared = described(name, column, kind, output)
        if column.pooled is None:
            out[name] = _mean(rows, name, column) | declared
        else:
            out[name] = _rate(rows, *column.pooled) | declared
            over_samples = {
                "meaning": f"{column.meaning}; mean over samples",
                "heading": f"{declared['heading']} (mean)",
                "headline": False,
                "figure": "mean",
            }
            out[f"{name}_mean"] = _mean(rows, name, column) | declared | over_samples
    return out


def described(name: str, column: Column, kind: str | None, output: str | None) -> dict[str, Any]:
    """What the column declares, as run folders and `limen measure` write it."""
    return {
        "meaning": column.meaning,
        "heading": column.heading or name,
        "unit": column.unit,
        "format": column.format,
        "better": column.better,
        "headline": column.is_headline(kind, output),
        "figure": column.figure,
        "needs_attack": column.needs_attack,
    }


def figure(summary: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    """The number of a column that has a 95 % interval, and that interval: the rate of the set if the column
    is pooled, else the mean, which may be a share."""
    return summary["rate" if "rate" in summary else "mean"], summary["low"], summary["high"]


def typical(summary: Mapping[str, Any]) -> tuple[str, float | None]:
    """What the column declares as its figure ("rate", "share", "mean" or "median"), and that number."""
    name = summary["figure"]
    return name, summary["mean" if name == "share" else name]


def _rate(rows: Rows, errors: str, words: str) -> dict[str, Any]:
    known = [
        (row[errors], row[words])
        for row in rows
        if row.get(errors) is not None and row.get(words) is not None
    ]
    counts, totals = [e for e, _ in known], [n for _, n in known]
    of_set = pooled(counts, totals)
    return {
        "n": len(known),
        "rate": of_set["mean"],
        "low": of_set["low"],
        "high": of_set["high"],
        "count": float(sum(counts)),
        "total": float(sum(totals)),
        "of": [errors, words],
        "missing": len(rows) - len(known),
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
    }
