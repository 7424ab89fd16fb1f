"""The split of a sample by a hash of its name, for data without splits: adding samples moves no other."""

import hashlib
from typing import Literal

Split = Literal["train", "valid", "test"]


def split_of(name: str, valid: float, test: float) -> Split:
    """The fraction of names that go to valid and to test; the rest is train."""
    place = int.from_bytes(hashlib.sha256(f"split\x1f{name}".encode()).digest()[:8], "little") / 2**64
    return "valid" if place < valid else "test" if place < valid + test else "train"
