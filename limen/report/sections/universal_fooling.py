"""Fooling rate of each class as a universal perturbation grows: figure 2 of Vadillo and Santana 2021."""

from typing import Any

from markupsafe import Markup

from limen.report.blocks import Block, Figure, Section
from limen.report.formatting import place
from limen.report.parts import Part
from limen.report.run import CellResult
from limen.report.svg.lines import Series, legend, line_chart

CAPTION = "Share of the samples of each class whose prediction changes when the perturbation is scaled."


def universal_fooling(part: Part) -> Section | None:
    figures: list[Block] = [figure for cell in part.cells if (figure := _figure(cell)) is not None]
    return Section(blocks=figures, order=140) if figures else None


def _figure(cell: CellResult) -> Figure | None:
    curves = _curves(cell)
    if not curves:
        return None
    names = list(curves[0][1]["fooling_rate"])
    panels: list[tuple[str, Markup]] = []
    for constraint, curve in curves:
        series = [
            Series(label, curve["values"], rates, slot=names.index(label) if label in names else 0)
            for label, rates in curve["fooling_rate"].items()
        ]
        axis = str(curve.get("heading") or constraint)
        chart = line_chart(
            series,
            title=f"Fooling rate against {constraint}: {place(cell)}",
            x_label=axis,
            y_label="Fooling rate, %",
            x_rule=(-32.0, "−32 dB") if constraint == "peak_db" else None,
        )
        panels.append((axis, chart))
    key = legend([(name, k) for k, name in enumerate(names)])
    return Figure(f"Fooling rate by class: {place(cell)}", CAPTION, panels, key)


def _curves(cell: CellResult) -> list[tuple[str, dict[str, Any]]]:
    """Constraint -> values, and the fooling rates of each class at these."""
    curves = {str(k): dict(c) for k, c in (cell.result.get("scaled") or {}).items()}
    if cell.curve.get("by_class") and cell.universal:
        curves[str(cell.curve["constraint"])] = {
            "values": cell.curve["values"],
            "fooling_rate": cell.curve["by_class"],
            "heading": cell.curve_info.get("heading"),
        }
    return [(k, c) for k, c in curves.items() if c.get("values") and c.get("fooling_rate")]
