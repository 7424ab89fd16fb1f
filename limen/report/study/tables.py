"""Cells and captions that tables of the results page share."""

from collections.abc import Sequence
from typing import Any

from limen.listening.statistics.assumptions import FEW_ITEMS
from limen.report.blocks import Table, plain_table
from limen.report.formatting import DASH, listed
from limen.report.study import sentences as words
from limen.trials.base.findings import Estimate, Where

BOTH = "listeners and items"


def table(
    title: str, headings: list[tuple[str, str]], rows: list[list[Any]], caption: str = "", names: int = 1
) -> Table:
    """Headings are (heading, meaning); the first `names` columns contain text."""
    texts = [[value if isinstance(value, str) else str(value) for value in row] for row in rows]
    return plain_table(title, headings, texts, caption, names)


def where_cells(where: Where) -> tuple[str, str]:
    """The keys that answers are grouped by, and their values."""
    return listed(where.keys) or "all", str(where) if where.keys else ""


def p_cell(p: float | None) -> str:
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def range_cell(e: Estimate) -> str:
    return words.ends(e, "1f", 100) or DASH


def scope(estimates: Sequence[tuple[str, Estimate]], what: str = "Intervals and p") -> str:
    """What the intervals generalise over, and their limits. Each estimate comes with its name."""
    known = [(name, e) for name, e in estimates if e.low is not None]
    fewer = [(name, e) for name, e in known if e.over != BOTH]
    few = [name for name, e in known if e.over == BOTH and e.items is not None and e.items < FEW_ITEMS]
    out = f"{what} generalise over listeners and items"
    if fewer:
        over = listed(list(dict.fromkeys(e.over for _, e in fewer)))
        out += f", but for {_first([name for name, _ in fewer])} only over {over}: the design allows no more"
    if few:
        out += (
            f". For {_first(few)} there are fewer than five items, so the variance between items is poorly "
            "known: a test at 5 % may give false positives in up to 11 % of studies"
        )
    return f"{out}."


def _first(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    return listed(names[:6]) + (", ..." if len(names) > 6 else "")
