"""What the attack sanity checks share: a check, and how two attacks are compared."""

from collections.abc import Iterable
from dataclasses import dataclass

from limen.report.formatting import many
from limen.report.run import CellResult

DEAD_SHARE = 0.1
"""More gradients than this share must not be zero."""
RISE = 0.02
"""Differences up to this, or of a single sample, are taken for chance."""

Evidence = tuple[int, list[str]]
"""How many comparisons could be made, and one sentence for each that failed."""


@dataclass(frozen=True)
class Check:
    name: str
    raised_if: str
    means: str
    do: str
    compared: int
    flags: list[str]

    @property
    def status(self) -> str:
        return "flag" if self.flags else "pass" if self.compared else "not run"

    @property
    def summary(self) -> str:
        return many(self.compared, "comparison") if self.compared else "nothing to compare in this run"


def success(cell: CellResult) -> float | None:
    """Share of successes: the success column, otherwise the error rate; of a curve, the mean over its
    values."""
    if cell.curve:
        return 1 - sum(cell.curve["accuracy"]) / len(cell.curve["accuracy"])
    rate = cell.value("success")
    correct = cell.value("correct")
    return rate if rate is not None else None if correct is None else 1 - correct


def allowed(cell: CellResult) -> str:
    """The limit of the attack in a form that can be compared; empty if there is none."""
    limit = {k: cell.curve[k] for k in ("constraint", "values")} if cell.curve else cell.limit
    return repr(sorted(limit.items())) if limit else ""


def same_problem(cell: CellResult) -> tuple[object, ...]:
    """Attacks that may be compared: same task, net, defence, goal and budget."""
    goal = cell.goal
    settled = {"away_from": "label", **goal} if goal["name"] == "untargeted" else goal
    return (
        cell.task_index,
        cell.net,
        cell.defense,
        cell.sees_defense,
        repr(sorted(settled.items())),
        allowed(cell),
    )


def beats(a: float, b: float, n: int, margin: float = RISE) -> bool:
    """a is more than b by more than the margin and by more than a single sample."""
    return a - b > margin and (a - b) * n > 1.5


def groups(cells: Iterable[CellResult]) -> list[list[CellResult]]:
    grouped: dict[tuple[object, ...], list[CellResult]] = {}
    for cell in cells:
        grouped.setdefault(same_problem(cell), []).append(cell)
    return list(grouped.values())
