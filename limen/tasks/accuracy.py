"""How often the model is right, clean or under attack, and what the attack cost: one row per sample."""

import heapq

from pydantic import Field

from limen.options import Options
from limen.tasks._cell import Cell, Example, Outcome


class Accuracy(Options):
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate only the first so many samples of the data's order; null evaluates all."""


def accuracy(cell: Cell, options: Accuracy) -> Outcome:
    cell.craft()
    outcome = Outcome()
    for batch in cell.batches(options.limit_samples):
        samples, _ = cell.samples(batch)
        rows = cell.rows(samples)
        outcome.rows += rows
        candidates = [Example(row["id"], *samples.pair(i), row) for i, row in enumerate(rows)]
        # fooled samples first: they are what one wants to look at; ties by order
        outcome.examples = heapq.nsmallest(cell.examples, outcome.examples + candidates, key=lambda e: not e.row.get("success", False))
        cell.advance(len(batch))
    return outcome
