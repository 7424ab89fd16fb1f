"""Budgets compared by size: whether one contains another, and which changes fit it."""

from collections.abc import Callable
from typing import Any

from limen.report.formatting import variable_text
from limen.report.run import CellResult, number

ROUNDING = 1e-6
"""A change may be larger than the budget by this share of it: norms are computed in single precision."""


def counts(cell: CellResult, first: CellResult) -> bool:
    """The attack of the cell had the budget of `first` or a smaller one, or it had none and the rows hold the
    quantity that the budget limits."""
    if cell.limit:
        return cell.limit == first.limit or smaller(cell, first)
    return bool(first.budget_info) and first.budget_info["column"] in cell.rows


def smaller(small: CellResult, large: CellResult) -> bool:
    """True if the second budget contains the first: they differ in their size alone."""
    if not small.budget_info or not large.budget_info:
        return False
    option = large.budget_info["option"]
    if {**small.budget, option: large.budget.get(option)} != large.budget:
        return False
    return _strength(large, small.budget_info["value"]) <= _strength(large, large.budget_info["value"])


def within(cell: CellResult, first: CellResult) -> Callable[[dict[str, Any]], bool] | None:
    """Whether the change of a row fits the budget of `first`; None if the attack had a budget and so kept to
    it."""
    if cell.limit:
        return None
    most = _strength(first, first.budget_info["value"])

    def fits(row: dict[str, Any]) -> bool:
        size = number(row[first.budget_info["column"]])
        return size is not None and _strength(first, size) <= most + ROUNDING * abs(most)

    return fits


def in_words(cell: CellResult) -> str:
    """The limit of an attack in a few words: L∞ ≤ 0.1."""
    if cell.budget_info:
        return str(cell.budget_info["text"]).replace("-", "−")
    named = {k: v for k, v in cell.limit.items() if k != "name"}
    return " ".join(part for part in (str(cell.limit.get("name") or ""), variable_text(named)) if part)


def _strength(cell: CellResult, value: float) -> float:
    """A size of the change as a number that is larger for larger changes."""
    return float(value) if cell.budget_info["larger_is_stronger"] else -float(value)
