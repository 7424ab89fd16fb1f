"""Columns of a run as their metrics and tasks declare them: heading, format, and the number that represents a
set of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from limen.report.formatting import DASH, fmt, interval
from limen.report.run import CellResult, number

RATED = ("correct", "success")
"""Columns with a place of their own in the table of results."""


@dataclass(frozen=True)
class Declared:
    """One column of summary.json, with what its metric or task declares."""

    name: str
    stat: dict[str, Any]

    @property
    def heading(self) -> str:
        return str(self.stat.get("heading") or self.name)

    @property
    def format(self) -> str:
        return str(self.stat.get("format") or "3g")

    @property
    def meaning(self) -> str:
        return str(self.stat.get("meaning") or "")

    @property
    def unit(self) -> str:
        return str(self.stat.get("unit") or "")

    @property
    def median(self) -> bool:
        """True if the median represents the column; otherwise a mean, share or rate with its interval."""
        return self.stat.get("figure") == "median"

    @property
    def figure(self) -> str:
        """Which number of the samples is shown: "median", "mean", "of all n", "errors / words"."""
        if "rate" in self.stat:
            errors, total = self.stat["of"]
            return f"{errors.rsplit('_', 1)[-1]} / {total}"
        return "of all n" if "count" in self.stat else str(self.stat.get("figure") or "mean")

    def shown(self, cell: CellResult) -> tuple[str, str]:
        """The number of this column in a cell, and its interval if it has one."""
        stat = cell.columns.get(self.name)
        if stat is None or (self.stat.get("needs_attack") and cell.attack == "none"):
            return DASH, ""
        if self.median:
            return fmt(stat.get("median"), self.format), ""
        value, low, high = cell.stat(self.name)
        return fmt(value, self.format), interval(low, high, self.format)


def headlines(cells: Sequence[CellResult]) -> list[Declared]:
    """Columns that their metric declares to be a headline, and those that measure the budgets of these cells,
    if any of the cells has a value. Those with an interval come first."""
    budgets = {cell.budget_info.get("column") for cell in cells}
    found: dict[str, Declared] = {}
    for cell in cells:
        for name, stat in cell.columns.items():
            shown = stat.get("headline") or name in budgets
            if shown and name not in RATED and _has_value(cell, stat):
                found.setdefault(name, Declared(name, stat))
    return sorted(found.values(), key=lambda column: column.median)


def _has_value(cell: CellResult, stat: dict[str, Any]) -> bool:
    if stat.get("needs_attack") and cell.attack == "none":
        return False
    return number(stat.get("rate", stat.get("mean"))) is not None


def size_of_change(cell: CellResult) -> str:
    """How large the changes of an attack are, for a sentence: "at a median SNR of 35 dB"; empty if no metric
    measured it."""
    declared = [c for c in headlines([cell]) if c.median and c.stat.get("needs_attack")]
    if not declared:
        return ""
    # levels in decibels first, and of these the SNR, which is larger for quieter changes; then the budget's
    # own
    bounded = cell.budget_info.get("column")
    rank = lambda c: (c.unit != "dB", c.stat.get("better") != "higher" or c.unit != "dB", c.name != bounded)
    column = min(declared, key=rank)
    value = fmt(cell.median(column.name), column.format)
    name, unit = column.heading.removesuffix(", dB"), " dB" if column.unit == "dB" else ""
    return f"at a median {name} of {value}{unit}"
