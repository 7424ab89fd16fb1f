"""Shared by the charts of the results page: marks of estimates, and rows and colours of cells."""

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from limen.listening.analysis.result_types import Ratings, Share
from limen.report.svg.bars import Points
from limen.report.svg.lines import legend
from limen.trials.base.findings import Estimate

Cells = Sequence[Share] | Sequence[Ratings]


def point(e: Estimate) -> tuple[float, float | None, float | None] | None:
    return None if e.value is None else (e.value, e.low, e.high)


def keys_of(cells: Cells) -> list[tuple[str, ...]]:
    """Keys that the cells are grouped by, in order, without that of all answers."""
    return [keys for keys in dict.fromkeys(c.where.keys for c in cells) if keys]


def rows_and_points(cells: Cells, of: Callable[[Any], Estimate]) -> tuple[list[str], list[Points]]:
    """Rows and marks of cells with the same keys; with two keys the first gives the rows, the second the
    colours."""
    if len(cells[0].where.keys) == 1:
        return [str(c.where) for c in cells], [Points(cells[0].where.keys[0], [point(of(c)) for c in cells])]
    rows, second = (list(dict.fromkeys(c.where.values[i] for c in cells)) for i in (0, 1))
    found = {c.where.values: point(of(c)) for c in cells}
    return rows, [Points(b, [found.get((a, b)) for a in rows], k) for k, b in enumerate(second)]


def colour_key(panels: Sequence[Sequence[Points]]) -> Markup:
    """Legend of all panels with several colours."""
    names = {s.name: s.slot for series in panels if len(series) > 1 for s in series}
    return legend(list(names.items())) if names else Markup("")
