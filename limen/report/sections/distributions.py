"""How the level of the change is distributed over samples, by attack and by class: figures 3 and 4 of Vadillo
and Santana 2021."""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from limen.report.blocks import Block, Figure, Section
from limen.report.formatting import fmt, place
from limen.report.parts import Part
from limen.report.places import facet_name, facets
from limen.report.rating import worst
from limen.report.run import CellResult, number
from limen.report.sections.confusion_matrix import MOST_CLASSES
from limen.report.svg.boxes import box_plot
from limen.report.svg.lines import legend

STEMS = {"peak_db": "Peak of the change, dB", "mean_db": "Mean of the change, dB"}
PARTS = {"": "entire clip", "_vocal": "vocal part", "_background": "background"}
ACCEPTABLE = (-32.0, "−32 dB")
READING = (
    " Boxes hold half of the samples, the line is the median, whiskers reach the last sample within 1.5 box "
    "lengths."
)


def distributions(part: Part) -> Section | None:
    cells = [c for c in part.cells if not c.curve and c.attack != "none" and "peak_db" in c.columns]
    blocks: list[Block] = []
    for stem in STEMS:
        columns = [stem + suffix for suffix in PARTS if any(stem + suffix in c.columns for c in cells)]
        if columns:
            level = _Level(stem, columns)
            blocks += [figure for figure in (level.by_attack(cells), level.by_class(cells)) if figure]
    return Section(blocks=blocks, order=210) if blocks else None


class _Level:
    """Box plots of one level: of the entire clip and of its parts."""

    def __init__(self, stem: str, columns: list[str]):
        self.columns, self.words = columns, STEMS[stem]
        self.names = [PARTS[column.removeprefix(stem)] for column in columns]
        self.key = legend([(name, k) for k, name in enumerate(self.names)], boxes=True)
        self.folded = stem != "peak_db"
        self.rule = None if self.folded else ACCEPTABLE
        known = "" if self.folded else " Dashed: −32 dB; a peak below it is usually called acceptable."
        self.reading = known + READING

    def by_attack(self, cells: Sequence[CellResult]) -> Figure | None:
        values = [v for c in cells for column in self.columns for v in _finite(c.values(column))]
        panels: list[tuple[str, Markup]] = []
        for net, defense in facets(cells):
            selected = [c for c in cells if (c.net, c.defense) == (net, defense)]
            boxes = {
                _attack_name(c): [_finite(c.values(column)) for column in self.columns] for c in selected
            }
            width = max(420, 70 + 75 * len(boxes))
            size = {"span": (min(values), max(values)), "width": width, "height": 260} if values else {}
            panels += self._panel(facet_name(net, defense), "attack", boxes, **size)
        wide = any(c.variable for c in cells)
        return self._figure("attack", "Relative to the clip, all samples.", panels, wide)

    def by_class(self, cells: Sequence[CellResult]) -> Figure | None:
        panels: list[tuple[str, Markup]] = []
        for cell in _strongest(cells):
            labels = [str(v) for v in cell.rows.get("label", [])]
            order = [c for c in cell.classes if c in set(labels)] or sorted(set(labels))
            if cell.output == "transcript" or not 1 < len(order) <= MOST_CLASSES:
                continue
            columns = [cell.values(column) for column in self.columns]
            boxes = {
                name: [
                    _finite([v for v, w in zip(column, labels, strict=True) if w == name])
                    for column in columns
                ]
                for name in order
            }
            panels += self._panel(place(cell), "class", boxes)
        return self._figure("class", "For the strongest attack and every universal one.", panels, True)

    def _panel(
        self, name: str, by: str, boxes: dict[str, list[list[float]]], **size: Any
    ) -> list[tuple[str, Markup]]:
        groups = [(group, values) for group, values in boxes.items() if any(values)]
        if not groups:
            return []
        title = f"{self.words} by {by}: {name}"
        chart = box_plot(groups, self.names, title=title, y_label=self.words, rule=self.rule, **size)
        return [(name, chart)]

    def _figure(self, by: str, caption: str, panels: list[tuple[str, Markup]], wide: bool) -> Figure | None:
        title = f"{self.words.split(',')[0]} by {by}"
        return Figure(title, caption + self.reading, panels, self.key, wide, self.folded) if panels else None


def _attack_name(cell: CellResult) -> str:
    values = [fmt(v) if number(v) is not None else str(v) for v in cell.variable.values()]
    return " ".join([cell.attack, ", ".join(values)]) if values else cell.attack


def _strongest(cells: Sequence[CellResult]) -> list[CellResult]:
    """Per net, undefended if possible: the cell in which the model does worst, and the universal attacks."""
    found: list[CellResult] = []
    for net in dict.fromkeys(c.net for c in cells):
        selected = [c for c in cells if c.net == net]
        bare = [c for c in selected if c.defense == "none"] or selected
        top = worst(bare)
        found += [c for c in bare if c is top or (c.universal and not c.variable)]
    return found


def _finite(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v)]
