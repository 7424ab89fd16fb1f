"""The loop of tasks that attack every sample once: rows, examples, and files for other tools."""

import heapq
from collections.abc import Callable
from typing import Any

from limen.core.types import Samples
from limen.goals.base.goal import Goal
from limen.tasks.base.cell import Cell, Example, Outcome
from limen.tasks.base.export import Export, Exporter

Rows = list[dict[str, Any]]


def evaluate(
    cell: Cell,
    limit: int | None,
    export: Export | None,
    keep: Callable[[list[Example]], list[Example]],
    more_columns: Callable[[Samples, Goal | None], dict[str, list[Any]]] = lambda samples, goal: {},
) -> Outcome:
    """Attack, judge and measure at most `limit` samples; `keep` chooses the examples among those so far."""
    cell.craft()
    outcome = Outcome()
    exporter = Exporter(cell.folder, export) if export else None
    for batch in cell.batches(limit):
        samples, goal = cell.samples(batch)
        samples.extra |= more_columns(samples, goal)
        rows = cell.rows(samples)
        outcome.rows += rows
        outcome.examples = keep(outcome.examples + examples_of(samples, rows))
        if exporter:
            exporter.add(samples, rows)
        cell.advance(len(batch))
    if exporter:
        exporter.close()
    return outcome


def examples_of(samples: Samples, rows: Rows) -> list[Example]:
    return [Example(row["id"], *samples.pair(i), row) for i, row in enumerate(rows)]


def successes_first(count: int) -> Callable[[list[Example]], list[Example]]:
    """Keeps `count` examples: those of successful attacks first, in the order of the data."""
    return lambda examples: heapq.nsmallest(count, examples, key=lambda e: not e.row.get("success", False))
