"""One row per sample: the worst that any of several attacks did to it."""

import json
from collections.abc import Callable
from typing import Any

from limen.core.text import normalised
from limen.metrics.base.error_rates import rate_columns
from limen.metrics.base.summary import summarise
from limen.report.run import CellResult, number
from limen.report.transcripts import how_compared
from limen.tasks.base.columns import TASK_COLUMNS

RATES = {"wer": "word", "cer": "character"}
COLUMNS = {name: TASK_COLUMNS[name] for name in ("correct", "success", "fooled")} | {
    r: rate_columns(r, unit)[r] for r, unit in RATES.items()
}
"""Columns that several attacks can be summarised in together."""

Row = dict[str, Any]


def rows_by_id(cell: CellResult, fits: Callable[[Row], bool] | None = None) -> dict[str, Row]:
    """Id -> row of the cell, with `tried`: false if `fits` says that the change is larger than the budget
    allows."""
    return {str(row["id"]): row | {"tried": fits is None or fits(row)} for row in _rows(cell)}


def rows_at(cell: CellResult, value: float) -> dict[str, Row]:
    """The rows of one value of a constraint."""
    return {str(row["id"]): row | {"tried": True} for row in _rows(cell) if row["value"] == value}


def _rows(cell: CellResult) -> list[Row]:
    names = list(cell.rows)
    return [dict(zip(names, values, strict=True)) for values in zip(*cell.rows.values(), strict=True)]


def key(*values: Any) -> str:
    """The values as text that is equal if they are."""
    return json.dumps(values, sort_keys=True, default=str)


def worst_rows(members: list[tuple[CellResult, dict[str, Row]]], goals: set[str]) -> list[Row]:
    """The worst row of each sample. Success is that of attacks with one of `goals`, if there is only one and
    these attacks agree which samples had reached it before."""
    aimed = [(cell, rows) for cell, rows in members if {key(cell.goal)} == goals]
    worst = []
    for i in members[0][1]:
        sample = [(cell, rows[i]) for cell, rows in members]
        row: Row = {"id": i, "correct": all(_right(cell, row) for cell, row in sample)}
        selected = [rows[i] for _, rows in aimed]
        if (
            selected
            and all("success" in r for r in selected)
            and len({bool(r.get("already")) for r in selected}) == 1
        ):
            row |= {
                "success": any(r["tried"] and r["success"] for r in selected),
                "already": bool(selected[0].get("already")),
            }
        if all(r.get("fooled") is not None for _, r in sample):
            row["fooled"] = any(r["tried"] and r["fooled"] for _, r in sample)
        for rate, unit in RATES.items():
            errors, n = _most_errors(sample, f"{unit}_errors"), number(sample[0][1].get(f"{unit}s"))
            row |= {
                f"{unit}_errors": errors,
                f"{unit}s": n,
                rate: errors / n if n and errors is not None else None,
            }
        worst.append(row)
    return worst


def summary(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Summaries of the columns that every sample has."""
    has = lambda name: all(row.get(name) is not None for row in rows)
    shown = {name: c for name, c in COLUMNS.items() if has(c.pooled[0] if c.pooled else name)}
    found = summarise(rows, shown)
    return {name: stat for name, stat in found.items() if stat["n"]}


def _right(cell: CellResult, row: Row) -> bool:
    """The model is right on the clean sample, and on the adversarial one if that counts."""
    return _is(cell, row, "clean_correct", "clean_prediction") and (
        not row["tried"] or _is(cell, row, "correct", "adversarial_prediction")
    )


def _is(cell: CellResult, row: Row, column: str, answer: str) -> bool:
    """The prediction is the truth: by its column if there is one, otherwise by comparing the texts."""
    if row.get(column) is not None:
        return bool(row[column])
    plain = (lambda text: normalised(str(text), how_compared(cell))) if cell.output == "transcript" else str
    return plain(row["label"]) == plain(row[answer])


def _most_errors(sample: list[tuple[CellResult, Row]], column: str) -> float | None:
    """The most errors in any transcript of this clip; None if they were not counted."""
    known = [
        number(row.get(name))
        for _, row in sample
        for name in (column, f"clean_{column}")
        if name != column or row["tried"]
    ]
    return max((k for k in known if k is not None), default=None)
