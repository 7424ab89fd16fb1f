"""Splits of data that come with a test set only, or with no split at all."""

import hashlib
from typing import Literal

Split = Literal["train", "valid", "test"]
HELD_OUT = 5000
"""Number of training pictures, the last ones, in the valid split (at most a tenth, for small copies of a data
set)."""


def split_of(name: str, valid: float, test: float) -> Split:
    """The split of a sample by a hash of its name, so that adding samples moves no other. `valid` and `test`
    are the fractions of names that go there; the rest is train."""
    place = int.from_bytes(hashlib.sha256(f"split\x1f{name}".encode()).digest()[:8], "little") / 2**64
    return "valid" if place < valid else "test" if place < valid + test else "train"


def split_numbers(count: int, split: Split) -> list[int]:
    """Numbers of the samples of a split. The test part is a set of its own; the last samples of the training
    part are held out for validation."""
    if split == "test":
        return list(range(count))
    cut = count - min(HELD_OUT, count // 10)
    return list(range(cut)) if split == "train" else list(range(cut, count))
