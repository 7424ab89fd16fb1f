r"""How well one property of a trial can be guessed from another: balanced accuracy of the best guess,
    A = 1/C sum_v max_c n(v, c) / n(c)
over the known values v and the C values c that are guessed. Its chance level is 1/C with infinitely many
trials and higher with few items: `chance` is the mean of A over random assignments of the known values, and
`p` the share of assignments that reach the observed A."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 999
UNIMPORTANT = 0.1
"""Excess over 1/C that is unimportant for listeners and analysis: no random assignments are evaluated."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Guessed:
    accuracy: float
    """1: always correct."""
    chance: float
    p: float

    @property
    def certain(self) -> bool:
        """Whether the guess is always correct."""
        return self.accuracy > 1 - 1e-9

    @property
    def more_than_chance(self) -> bool:
        return self.p <= 0.002 and self.accuracy >= self.chance + UNIMPORTANT

    def describe(self, n: int, what: str) -> str:
        by_chance = f"{100 * self.chance:.0f} % by chance with {n} {what}s"
        return f"the best guess is correct in {100 * self.accuracy:.0f} % ({by_chance})"


@dataclass(frozen=True)
class Rows:
    """Which listener hears which item."""

    items: Ints
    """Item of each row."""
    listeners: Ints
    """Listener of each row."""
    blocks: Ints
    """Block of each item; items of a block are heard by the same groups of listeners."""


def coded(values: Sequence[str]) -> Ints:
    """Integer codes of the values."""
    return np.unique(np.asarray(values, dtype=str), return_inverse=True)[1].astype(np.int64)


def from_items(known: Sequence[str], counts: Floats, rows: Rows | None = None) -> Guessed:
    """Guess from a property of the items. `known`: its value for each item; `counts` (items, C): trials of
    each item by what is guessed. The random assignments permute `known` over items.

    With `rows`, within listeners: `counts` (rows, C) are those of one item for one listener each, the
    accuracy is the mean over listeners of the best guess of each, and `known` is permuted among the items of
    a block."""
    codes = coded(known)
    one = np.zeros(len(codes), np.int64)
    rows = rows or Rows(np.arange(len(codes)), one, one)
    values, listeners, classes = int(codes.max()) + 1, int(rows.listeners.max()) + 1, counts.shape[1]
    totals = np.stack([np.bincount(rows.listeners, column, listeners) for column in counts.T])
    guessable = (totals > 0).sum(0)
    several = guessable > 1
    if not several.any():  # each listener has only one answer
        return Guessed(1 / classes, 1 / classes, 1.0)

    def accuracy(codes: Ints) -> float:
        cells = rows.listeners * values + codes[rows.items]
        table = np.stack([np.bincount(cells, column, listeners * values) for column in counts.T]).reshape(
            classes, listeners, values
        )
        best = (table / np.maximum(totals, 1)[..., None]).max(0).sum(1)
        return float((best[several] / guessable[several]).mean())

    def dealt(random: np.random.Generator) -> Ints:
        out = np.empty_like(codes)
        out[np.argsort(rows.blocks, kind="stable")] = codes[
            np.lexsort((random.random(len(codes)), rows.blocks))
        ]
        return out

    return _against(accuracy, codes, dealt, float((1 / guessable[several]).mean()))


def from_places(known: Callable[[Ints], Ints], asked: Ints, listeners: Ints) -> Guessed:
    """Guess from the position of a trial. `asked`: what is guessed, for each trial, listener by listener;
    `known` computes the property for trials in a given order, -1 if it is unknown. The random assignments
    shuffle the trials of each listener."""
    classes = int(asked.max()) + 1

    def accuracy(values: Ints) -> float:
        seen = known(values)
        used = seen >= 0
        table = np.zeros((int(seen.max()) + 1, classes))
        np.add.at(table, (seen[used], values[used]), 1)
        return float((table / np.maximum(table.sum(0), 1)).max(1).sum() / classes)

    return _against(
        accuracy, asked, lambda random: asked[np.lexsort((random.random(len(asked)), listeners))], 1 / classes
    )


def _against(
    accuracy: Callable[[Ints], float], as_is: Ints, draw: Callable[[np.random.Generator], Ints], least: float
) -> Guessed:
    observed, random = accuracy(as_is), np.random.default_rng(0)
    if observed < least + UNIMPORTANT:
        return Guessed(observed, least, 1.0)
    drawn = np.array([accuracy(draw(random)) for _ in range(DRAWS)])
    return Guessed(observed, float(drawn.mean()), float((1 + (drawn > observed - 1e-9).sum()) / (1 + DRAWS)))
