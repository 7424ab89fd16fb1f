"""A few samples to look at and listen to: clean, perturbation, adversarial, all of them kept."""

from pydantic import Field

from limen.options import Options
from limen.tasks._cell import Cell, Example, Outcome


class SamplesTask(Options):
    limit_samples: int = Field(default=4, ge=1)
    """How many samples to keep."""


def samples(cell: Cell, options: SamplesTask) -> Outcome:
    cell.craft()
    outcome = Outcome()
    for batch in cell.batches(options.limit_samples):
        attacked, _ = cell.samples(batch)
        rows = cell.rows(attacked)
        outcome.rows += rows
        outcome.examples += [Example(row["id"], *attacked.pair(i), row) for i, row in enumerate(rows)]
        cell.advance(len(batch))
    return outcome
