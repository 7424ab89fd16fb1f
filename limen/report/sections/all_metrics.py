"""Every column of every cell, with its interval, its median and its missing values."""

from typing import Any

from markupsafe import Markup

from limen.report.blocks import Folded, Group, Heading, Row, Section, Table
from limen.report.columns import Declared
from limen.report.formatting import fmt, interval, place
from limen.report.parts import Part
from limen.report.run import CellResult, number

HEADINGS = [
    Heading("Cell", number=False),
    Heading("Metric", number=False),
    Heading("n"),
    Heading("Value"),
    Heading("Kind", number=False),
    Heading("95\u202f% interval"),
    Heading("Median"),
    Heading("Missing"),
]


def all_metrics(part: Part) -> Section | None:
    # the rows of curves and of transfers hold every sample several times
    cells = [c for c in part.cells if not c.curve and not c.victims]
    rows = [_row(c, name, stat) for c in cells for name, stat in c.columns.items()]
    table = Table(
        "", HEADINGS, [Group(rows)], label=f"All metrics: {part.title}", style="dense", heading_column=1
    )
    return Section(blocks=[Folded("All metrics of every cell", [table])], order=250) if rows else None


def _row(cell: CellResult, name: str, stat: dict[str, Any]) -> Row:
    column = Declared(name, stat)
    metric = Markup('<span title="{}">{}</span> <span class="muted">{}</span>')
    return Row(
        [
            place(cell),
            metric.format(column.meaning, name, column.unit),
            fmt(stat.get("n"), "n"),
            fmt(cell.value(name)),
            _kind(stat),
            interval(number(stat.get("low")), number(stat.get("high")), "3g"),
            fmt(stat.get("median")),
            fmt(stat.get("missing") or 0, "n"),
        ]
    )


def _kind(stat: dict[str, Any]) -> str:
    """Which number of the column the value is."""
    if "rate" in stat:
        return f"rate: {' / '.join(stat['of'])}"
    if "count" in stat:
        return "share" + (f", unless {stat['unless']}" if "unless" in stat else "")
    return "mean"
