"""Edit distance between token sequences, with the alignment and the number of errors of each kind."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Costs = Literal["unit", "sclite"]
Operation = Literal["correct", "substitution", "deletion", "insertion"]

WEIGHTS: dict[str, tuple[int, int, int]] = {"unit": (1, 1, 1), "sclite": (4, 3, 3)}
"""Cost of a substitution, a deletion, an insertion. With NIST sclite's weights an alignment may have more
than the fewest possible errors."""


@dataclass(frozen=True)
class Edits:
    correct: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions


class Step(NamedTuple):
    """One step of an alignment, with the index in the reference and in the hypothesis; None for an insertion
    or a deletion."""

    operation: Operation
    reference: int | None
    hypothesis: int | None


def edits(reference: Sequence[str], hypothesis: Sequence[str], costs: Costs = "unit") -> Edits:
    """Number of errors of each kind in a cheapest alignment."""
    count = Counter(step.operation for step in alignment(reference, hypothesis, costs))
    return Edits(count["correct"], count["substitution"], count["deletion"], count["insertion"])


def alignment(reference: Sequence[str], hypothesis: Sequence[str], costs: Costs = "unit") -> list[Step]:
    """A cheapest alignment in order. Ties are broken as in sclite: match or substitution first, then
    insertion, then deletion."""
    substitute, delete, insert = WEIGHTS[costs]
    number = {token: i for i, token in enumerate({*reference, *hypothesis})}
    ref, hyp = (np.array([number[t] for t in tokens], dtype=np.int64) for tokens in (reference, hypothesis))
    ramp = np.arange(len(hyp) + 1) * insert
    table = np.empty((len(ref) + 1, len(hyp) + 1), dtype=np.int64)
    table[0] = ramp
    for i, token in enumerate(ref, start=1):
        row = table[i - 1] + delete
        row[1:] = np.minimum(row[1:], table[i - 1, :-1] + substitute * (hyp != token))
        # d[j] = min(row[j], d[j-1] + insert): a running minimum after subtracting the ramp of insertions
        table[i] = np.minimum.accumulate(row - ramp) + ramp
    return _trace(table, ref, hyp, substitute, insert)


def _trace(table: np.ndarray, ref: np.ndarray, hyp: np.ndarray, substitute: int, insert: int) -> list[Step]:
    steps: list[Step] = []
    i, j = len(ref), len(hyp)
    while i or j:
        if i and j and table[i, j] == table[i - 1, j - 1] + substitute * (ref[i - 1] != hyp[j - 1]):
            i, j = i - 1, j - 1
            steps.append(Step("correct" if ref[i] == hyp[j] else "substitution", i, j))
        elif j and table[i, j] == table[i, j - 1] + insert:
            j -= 1
            steps.append(Step("insertion", None, j))
        else:
            i -= 1
            steps.append(Step("deletion", i, None))
    return steps[::-1]
