"""A few samples for inspection: clean, perturbation and adversarial, all of them stored."""

from typing import ClassVar

from pydantic import Field

from limen.tasks.base.cell import Cell, Example, Outcome
from limen.tasks.base.export import Export, Exporter
from limen.tasks.base.task import TaskOptions


class SamplesTask(TaskOptions):
    title: ClassVar[str] = "samples"
    limit_samples: int = Field(default=4, ge=1)
    """Number of samples."""
    export: Export | None = None
    """Also write them and a table into the cell's folder `adversarial`, for other tools: clips as 16-bit
    files of this format, pictures as PNG; null writes nothing."""


def samples(cell: Cell, options: SamplesTask) -> Outcome:
    cell.craft()
    outcome = Outcome()
    exporter = Exporter(cell.folder, options.export) if options.export else None
    for batch in cell.batches(options.limit_samples):
        attacked, _ = cell.samples(batch)
        rows = cell.rows(attacked)
        outcome.rows += rows
        outcome.examples += [Example(row["id"], *attacked.pair(i), row) for i, row in enumerate(rows)]
        if exporter:
            exporter.add(attacked, rows)
        cell.advance(len(batch))
    if exporter:
        exporter.close()
    return outcome
