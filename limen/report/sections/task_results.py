"""Plain numbers and words that the task of a cell added."""

from limen.report.blocks import Cell, Folded, Group, Row, Section, Table
from limen.report.formatting import fmt, place
from limen.report.parts import Part

SHOWN_ELSEWHERE = ("constraint", "n", "proxy")


def task_results(part: Part) -> Section | None:
    rows = []
    for cell in part.cells:
        for name, value in cell.result.items():
            if isinstance(value, str | int | float) and name not in SHOWN_ELSEWHERE:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                text = fmt(value) if number else str(value)
                rows.append(Row([place(cell), str(name), Cell(text, style="r")]))
    table = Table("", [], [Group(rows)], label="Results of the task", heading_column=1)
    return Section(blocks=[Folded("Other results of the task", [table])], order=240) if rows else None
