"""Accuracy, clean or under attack, and the cost of the attack: one row per sample."""

import heapq
from typing import Any, ClassVar

from pydantic import Field

from limen.attacks.engine.physical import OverTheAir, over_the_air
from limen.core.types import Samples
from limen.goals.base.goal import Goal
from limen.tasks.base.cell import Cell, Example, Outcome
from limen.tasks.base.export import Export, Exporter
from limen.tasks.base.task import TaskOptions


class Accuracy(TaskOptions):
    title: ClassVar[str] = "accuracy under attack"
    audited: ClassVar[bool] = True
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate at most this many samples, the first in the order of the data; null evaluates all."""
    export: Export | None = None
    """Write every clean and adversarial sample and a table into the cell's folder `adversarial`, for other
    tools: clips as 16-bit files of this format, pictures as PNG; null writes nothing."""
    over_the_air: OverTheAir | None = None
    """Also judge every sample under fresh draws of transforms, {through: [{name: room}], draws: 20}: the
    column `over_the_air` is the share of draws in which the attack reaches its goal, `clean_over_the_air` the
    share in which the transforms alone reach it; null omits both."""


def accuracy(cell: Cell, options: Accuracy) -> Outcome:
    cell.craft()
    outcome = Outcome()
    exporter = Exporter(cell.folder, options.export) if options.export else None
    for batch in cell.batches(options.limit_samples):
        samples, goal = cell.samples(batch)
        if options.over_the_air and goal:
            samples.extra |= _over_the_air(cell, samples, goal, options.over_the_air)
        rows = cell.rows(samples)
        outcome.rows += rows
        outcome.examples = fooled_first(cell, outcome.examples, samples, rows)
        if exporter:
            exporter.add(samples, rows)
        cell.advance(len(batch))
    if exporter:
        exporter.close()
    return outcome


def _over_the_air(cell: Cell, samples: Samples, goal: Goal, options: OverTheAir) -> dict[str, list[float]]:
    both = {"over_the_air": samples.x_adv, "clean_over_the_air": samples.batch.x}
    return {
        name: over_the_air(cell.victim, samples.batch, x, goal, options, seed=cell.seed).tolist()
        for name, x in both.items()
    }


def fooled_first(
    cell: Cell, examples: list[Example], samples: Samples, rows: list[dict[str, Any]]
) -> list[Example]:
    """The examples that the cell keeps: successful attacks first, in the order of the data."""
    candidates = [Example(row["id"], *samples.pair(i), row) for i, row in enumerate(rows)]
    return heapq.nsmallest(
        cell.examples, examples + candidates, key=lambda e: not e.row.get("success", False)
    )
