"""The batches of an epoch, and the share of each that belongs to one of several processes."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from limen.core.types import Batch, Sample, collate
from limen.data.base.dataset import Dataset
from limen.models.training.options import TrainOptions
from limen.models.training.processes import Processes


@dataclass(frozen=True)
class Step:
    """What one process contributes to one step."""

    batch: Batch | None
    """The samples of this process; None if there are fewer samples than processes."""
    total: int
    """Samples of all processes in this step."""


def steps(
    data: Dataset, options: TrainOptions, order: torch.Generator, processes: Processes
) -> Iterator[Step]:
    """The steps of an epoch. All processes draw the same order, and each takes every n-th sample of a
    step."""
    numbers = list(range(len(data)))
    if options.shuffle:
        numbers = torch.randperm(len(data), generator=order).tolist()
    if options.bucket_batches == 1:
        for start in range(0, len(numbers), options.batch_size):
            part = numbers[start : start + options.batch_size]
            yield _step(data, [data[i] for i in processes.share_of(part)], len(part))
        return
    size = options.batch_size
    for start in range(0, len(numbers), size * options.bucket_batches):
        samples = [data[i] for i in numbers[start : start + size * options.bucket_batches]]
        samples.sort(key=lambda sample: len(sample.x))
        parts = range(0, len(samples), size)
        for k in torch.randperm(len(parts), generator=order).tolist():
            bucket = samples[parts[k] : parts[k] + size]
            yield _step(data, processes.share_of(bucket), len(bucket))


def _step(data: Dataset, samples: list[Sample], total: int) -> Step:
    return Step(collate(data.kind, samples) if samples else None, total)
