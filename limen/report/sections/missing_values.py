"""Metrics without a value on some samples, with the reason."""

import json

from limen.report.blocks import Group, Heading, Row, Section, Table
from limen.report.formatting import fmt
from limen.report.run import CellResult, Run

HEADINGS = [
    Heading("Metric", number=False),
    Heading("Reason", number=False),
    Heading("Samples"),
    Heading("Cells"),
]


def missing_values(run: Run) -> Section | None:
    found: dict[tuple[str, str], list[int]] = {}
    for cell in run.done:
        for key, samples in _counts(cell).items():
            found.setdefault(key, []).append(samples)
    most_first = sorted(found.items(), key=lambda item: -sum(item[1]))
    rows = [Row([*key, fmt(sum(counts), "n"), fmt(len(counts), "n")]) for key, counts in most_first]
    table = Table("", HEADINGS, [Group(rows)], label="Missing values", style="text")
    return Section("Missing values", [table], order=310) if rows else None


def _counts(cell: CellResult) -> dict[tuple[str, str], int]:
    """(Column, reason) -> samples of the cell without a value for that reason."""
    counts: dict[tuple[str, str], int] = {}
    for text in cell.rows.get("missing", []):
        for column, reason in (json.loads(text) if isinstance(text, str) and text else {}).items():
            counts[column, str(reason)] = counts.get((column, str(reason)), 0) + 1
    return counts
