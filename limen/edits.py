"""Edit distance: the cheapest way to turn a hypothesis into a reference, and how many errors of each kind it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Costs = Literal["unit", "sclite"]

WEIGHTS: dict[str, tuple[int, int, int]] = {"unit": (1, 1, 1), "sclite": (4, 3, 3)}
"""Cost of a substitution, a deletion, an insertion. With NIST sclite's weights an alignment may hold more errors than the fewest."""


@dataclass(frozen=True)
class Edits:
    correct: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions


def edits(reference: Sequence[str], hypothesis: Sequence[str], costs: Costs = "unit") -> Edits:
    """Counts along one cheapest alignment; ties as sclite breaks them: substitution or match first, then insertion before deletion."""
    substitute, delete, insert = WEIGHTS[costs]
    number = {token: i for i, token in enumerate({*reference, *hypothesis})}
    ref, hyp = (np.array([number[t] for t in tokens], dtype=np.int64) for tokens in (reference, hypothesis))
    ramp = np.arange(len(hyp) + 1) * insert
    table = np.empty((len(ref) + 1, len(hyp) + 1), dtype=np.int64)
    table[0] = ramp
    for i, token in enumerate(ref, start=1):
        row = table[i - 1] + delete
        row[1:] = np.minimum(row[1:], table[i - 1, :-1] + substitute * (hyp != token))
        # d[j] = min(row[j], d[j-1] + insert): a running minimum once the ramp of insertions is taken off
        table[i] = np.minimum.accumulate(row - ramp) + ramp
    return _trace(table, ref, hyp, substitute, insert)


def _trace(table: np.ndarray, ref: np.ndarray, hyp: np.ndarray, substitute: int, insert: int) -> Edits:
    correct = substitutions = deletions = insertions = 0
    i, j = len(ref), len(hyp)
    while i or j:
        if i and j and table[i, j] == table[i - 1, j - 1] + substitute * (ref[i - 1] != hyp[j - 1]):
            same = bool(ref[i - 1] == hyp[j - 1])
            correct, substitutions = correct + same, substitutions + (not same)
            i, j = i - 1, j - 1
        elif j and table[i, j] == table[i, j - 1] + insert:
            insertions, j = insertions + 1, j - 1
        else:
            deletions, i = deletions + 1, i - 1
    return Edits(correct, substitutions, deletions, insertions)
