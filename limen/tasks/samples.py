"""A few samples for inspection: clean, perturbation and adversarial, all of them stored."""

from typing import ClassVar

from pydantic import Field

from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.evaluation import evaluate
from limen.tasks.base.export import Export
from limen.tasks.base.task import TaskOptions


class SamplesTask(TaskOptions):
    title: ClassVar[str] = "samples"
    limit_samples: int = Field(default=4, ge=1)
    """Number of samples."""
    export: Export | None = None
    """Also write them and a table into the cell's folder `adversarial`, for other tools: clips as 16-bit
    files of this format, pictures as PNG; null writes nothing."""


def samples(cell: Cell, options: SamplesTask) -> Outcome:
    return evaluate(cell, options.limit_samples, options.export, keep=lambda examples: examples)
