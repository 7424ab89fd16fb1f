"""The first transcripts of each attacked cell, with their differences marked."""

from typing import Any

from markupsafe import Markup

from limen.report.blocks import Block, Cell, Folded, Group, Heading, Prose, Row, Section, Table
from limen.report.columns import Declared
from limen.report.formatting import fmt, many, place
from limen.report.parts import Part
from limen.report.run import CellResult, number
from limen.report.transcripts import compare, how_compared, targets

MOST_ROWS = 20
"""Rows of the table of each cell; all of them are in rows.parquet."""
NUMBERS = ("wer", "snr_db")
"""Numbers shown with each transcript."""
NOTE = Markup(
    'Marked: <span class="swap"><del>reference</del> <ins>transcribed instead</ins></span>, '
    "<del>missing</del>, "
    "<ins>added</ins>. The clean transcript is compared with the reference, the adversarial one with the "
    "target if the attack has one. WER is that of each clip. Success “before”: the clip was at the goal of "
    "the attack before anything was changed, so the attack is not credited with it."
)


def transcripts(part: Part) -> Section | None:
    attacked = [c for c in part.cells if c.output == "transcript" and c.attack != "none" and not c.curve]
    tables: list[Block] = [_folded(cell) for cell in attacked if cell.rows.get("id")]
    return Section("Transcripts", [Prose(NOTE), *tables], order=230) if tables else None


def _folded(cell: CellResult) -> Folded:
    count = len(cell.rows["id"])
    shown = min(MOST_ROWS, count)
    note = f"{'first ' if count > shown else ''}{shown} of {many(count, 'row')}"
    return Folded(place(cell), [_table(cell, shown)], note, style="transcripts")


def _table(cell: CellResult, count: int) -> Table:
    rows, wanted, how = cell.rows, targets(cell), how_compared(cell)
    victims, aimed = "victim" in rows, any(t is not None for t in wanted)
    measured = [k for k in (*NUMBERS, "success") if any(v is not None for v in rows.get(k, []))]
    text = lambda column, i: "" if rows.get(column, [None] * count)[i] is None else str(rows[column][i])
    lines = []
    for i in range(count):
        label, target = text("label", i), wanted[i]
        reference = label if target is None else target
        lines.append(
            Row(
                [
                    Cell(text("id", i), style="id"),
                    *([text("victim", i)] if victims else []),
                    label,
                    compare(label, text("clean_prediction", i), how).marked,
                    *([target or ""] if aimed else []),
                    compare(reference, text("adversarial_prediction", i), how).marked,
                    *(_number(cell, column, i) for column in measured),
                ]
            )
        )
    words = ["Sample", *(["Tried on"] if victims else []), "Reference", "Clean transcript"]
    words += [*(["Target"] if aimed else []), "Adversarial transcript"]
    headings = [Heading(word, number=False) for word in words]
    headings += [Heading(Declared(k, cell.columns.get(k, {})).heading) for k in measured]
    label = f"Transcripts: {place(cell)}"
    return Table("", headings, [Group(lines)], label=label, style="text", sortable=True)


def _number(cell: CellResult, column: str, i: int) -> Cell:
    """A number and what it is sorted by. A sample that was at the goal before cannot be a success."""
    value: Any = cell.rows[column][i]
    if column == "success":
        before = bool(cell.rows.get("already", [False] * (i + 1))[i])
        text: Any = "yes" if value else "before" if before else "no"
        return Cell(
            Markup('<span class="tag">{}</span>').format(text) if value else text, sort=int(bool(value))
        )
    known = number(value)
    return Cell(
        fmt(value, Declared(column, cell.columns.get(column, {})).format), sort="" if known is None else known
    )
