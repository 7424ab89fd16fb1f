"""Predictions by true class under the strongest attack on each net."""

from collections import Counter

from markupsafe import Markup

from limen.report.blocks import Figure, Section
from limen.report.formatting import fmt, place
from limen.report.parts import Part
from limen.report.rating import worst
from limen.report.run import CellResult
from limen.report.svg.boxes import heat_map

MOST_CLASSES = 20
CAPTION = (
    "Number of samples by true class (rows) and prediction (columns), under the attack that does most harm."
)


def confusion_matrix(part: Part) -> Section | None:
    panels: list[tuple[str, Markup]] = []
    for net in dict.fromkeys(c.net for c in part.cells):
        selected = [c for c in part.cells if c.net == net and c.output == "class" and not c.curve]
        cell = worst([c for c in selected if c.defense == "none"] or selected)
        if cell is not None and 1 < len(cell.classes) <= MOST_CLASSES:
            panels += _panel(cell)
    return Section(blocks=[Figure("Confusion matrix", CAPTION, panels)], order=220) if panels else None


def _panel(cell: CellResult) -> list[tuple[str, Markup]]:
    pairs = zip(cell.rows.get("label", []), cell.rows.get("adversarial_prediction", []), strict=False)
    counts = Counter((str(label), str(prediction)) for label, prediction in pairs)
    rows = [a for a in cell.classes if any(counts[a, b] for b in cell.classes)]
    if not rows:
        return []
    chart = heat_map(
        rows,
        cell.classes,
        [[counts[a, b] or None for b in cell.classes] for a in rows],
        title=f"Confusion matrix: {place(cell)}",
        row_label="truth",
        column_label="prediction",
        text=lambda v: fmt(v, "n"),
        top_value=float(max(counts[a, b] for a in rows for b in cell.classes)),
        side=34,
    )
    return [(place(cell), chart)]
