"""A few samples to look at and listen to: clean, perturbation, adversarial, all of them kept."""

from pydantic import Field

from limen.core.options import Options
from limen.tasks.base.cell import Cell, Example, Outcome
from limen.tasks.base.export import Export, Exporter


class SamplesTask(Options):
    limit_samples: int = Field(default=4, ge=1)
    """How many samples to keep."""
    export: Export | None = None
    """Write them and a table into the cell's folder `adversarial` too, for other tools: clips as 16-bit files
    of this format, pictures as PNG; null writes none."""


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
