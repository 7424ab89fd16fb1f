"""Data sets: samples in their natural range with ids, in a seeded order up to a limit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch, Kind, Sample, TruthKind, collate


class DataOptions(Options):
    """Options of every data set."""

    split: Literal["train", "valid", "test"] = "test"
    """Part of the data."""
    limit: int | None = Field(default=None, ge=1)
    """Use at most this many samples, the first of the order; null: all."""
    order: Literal["shuffled", "file"] = "shuffled"
    """"shuffled": by a hash of seed and id, so a limit is a random subset and adding samples moves no other;
    "file": the order of the files."""
    order_seed: int = 0
    """Seed of the shuffled order."""


class FileOptions(DataOptions):
    """Options of data sets of single files."""

    bad_files: Literal["error", "skip"] = "error"
    """An unreadable, empty, truncated or non-finite file: stop and name it, or skip it and count it."""


@dataclass
class Dataset:
    """Samples by number. `load(key)` reads the sample with this key; no sample is read before it is
    needed."""

    name: str
    kind: Kind
    keys: Sequence[Any]
    """One key per sample; only `load` interprets them."""
    load: Callable[[Any], Sample]
    classes: list[str] | None = None
    """Names of the classes, if the truth is a class."""
    rate_hz: int | None = None
    shape: tuple[int, ...] | None = None
    """Shape of one sample if all have the same."""
    truth: TruthKind = "class"
    """What is known of a sample: its class, its transcript, or a signal."""
    skip_bad: bool = False
    skipped: list[str] = field(default_factory=list)
    """Files left out, each with the reason."""

    def __post_init__(self) -> None:
        if (self.classes is None) == (self.truth == "class"):
            raise ValueError(f"{self.name}: classes are named if and only if the truth is a class")

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, i: int) -> Sample:
        return self.load(self.keys[i])

    def __iter__(self) -> Iterator[Sample]:
        for key in self.keys:
            try:
                yield self.load(key)
            except UserError as error:
                if not self.skip_bad:
                    raise
                if str(error) not in self.skipped:
                    self.skipped.append(str(error))

    def batches(self, size: int) -> Iterator[Batch]:
        waiting: list[Sample] = []
        for sample in self:
            waiting.append(sample)
            if len(waiting) == size:
                yield collate(self.kind, waiting)
                waiting = []
        if waiting:
            yield collate(self.kind, waiting)

    def first(self, n: int) -> Batch:
        """The first n samples in one batch, or as many as there are."""
        samples = list(islice(self, n))
        if not samples:
            raise UserError(
                f"The data set {self.name} has no readable sample. Skipped: "
                f"{'; '.join(self.skipped[:3]) or 'none'}."
            )
        return collate(self.kind, samples)

    def all(self) -> Batch:
        """All samples in one batch."""
        return self.first(len(self))


def ordered(keys: Sequence[Any], ids: Sequence[str], options: DataOptions) -> list[Any]:
    """The keys in the order and up to the limit of the options. `ids` are the sample ids of the keys."""
    numbers = range(len(keys))
    if options.order == "shuffled":
        numbers = sorted(numbers, key=lambda i: seeds.number(options.order_seed, "order", ids[i]))  # type: ignore[assignment]
    return [keys[i] for i in numbers][: options.limit]
