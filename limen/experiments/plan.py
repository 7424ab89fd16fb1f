"""Experiment -> cells. The id of a cell is the hash of its resolved spec, so that a resumed run knows which
cells are done."""

import hashlib
import json
from dataclasses import dataclass
from math import prod
from typing import Any

from limen.core.errors import UserError
from limen.experiments.audits import OtherModels, audit_cells
from limen.experiments.file import Experiment
from limen.experiments.grid import grid_cells, grid_points

MOST_CELLS = 10_000
"""Cells of a run; at ten seconds each they take more than a day."""


@dataclass(frozen=True)
class PlannedCell:
    """One cell of a run. Its result depends on `spec` alone; the other fields order and describe it."""

    order: int
    task_index: int
    spec: dict[str, Any]
    """Everything that decides the result, defaults written out."""
    labels: dict[str, str]
    """Names of the net, data, defence and attack in tables."""
    variable: dict[str, Any] | None
    """Values of the sweep by dotted name; null without a sweep."""

    @property
    def description(self) -> str:
        """The cell in one line: mlp | jpeg | pgd | eps 0.1."""
        varied = ", ".join(f"{k.rsplit('.', 1)[-1]} {v}" for k, v in (self.variable or {}).items())
        names = [self.labels["net"], self.labels["defense"], self.labels["attack"]]
        return " | ".join([*names, *([varied] if varied else [])])

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode()).hexdigest()[:12]


def plan(experiment: Experiment) -> list[PlannedCell]:
    """All cells in the order they run; a cell that appears twice is run once."""
    cells: dict[str, PlannedCell] = {}
    check_size([len(entry.nets) * len(entry.defenses) * len(entry.attacks) for entry in experiment.tasks])
    points = [list(grid_points(entry)) for entry in experiment.tasks]
    check_size(
        [
            sum(prod(len(entry.sweep[path]) for path in point.axes) for point in points[i])
            for i, entry in enumerate(experiment.tasks)
        ]
    )
    common = {"seed": experiment.seed, "store": experiment.store, "examples": experiment.examples}
    others = OtherModels(experiment)
    for number, entry in enumerate(experiment.tasks):
        grid = [cell for point in points[number] for cell in grid_cells(point, entry)]
        audits = audit_cells(entry, grid, others) if experiment.audit else []
        for one in [*grid, *audits]:
            cell = PlannedCell(len(cells), number, {**one.spec, **common}, one.labels, one.variable)
            cells.setdefault(cell.id, cell)
        if unused := set(entry.sweep) - {path for point in points[number] for path in point.axes}:
            raise UserError(
                f"tasks[{number}].sweep: no cell has the option {', '.join(sorted(unused))}. "
                "Names start with attack, defense, model, data or task: attack.budget.eps, defense.quality."
            )
    return list(cells.values())


def check_size(counts: list[int]) -> None:
    """Refuse a plan of more than MOST_CELLS cells before its cells are made; `counts` are those of each
    entry."""
    if sum(counts) > MOST_CELLS:
        largest = counts.index(max(counts))
        raise UserError(
            f"The plan has {sum(counts):,} cells, {counts[largest]:,} of them in tasks[{largest}] (nets x "
            f"defenses x attacks x values of the sweep); a run has at most {MOST_CELLS:,}. Shorten these "
            "lists, or split the file."
        )
