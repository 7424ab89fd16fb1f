r"""Detection of listeners who cannot have listened: correct when others guess, in less time than the sounds
last.

A program that fetches the sounds of an ABX trial and compares their samples is always correct
(docs/listening.md). A listener is implausible if both conditions hold; a good ear alone is legitimate, and
hasty guessers are found by other rules:
    P(K >= k) <= ODDS         for k correct answers,
        if each were correct as often as those of others in the same condition, or by chance
    more than half            of these answers were given in less time than the sounds last, one after another
K is a sum of independent trials, each with its own share. Time is reported by the page for each answer and
its playback, and measured by the server's clock over all answers of a step. A program that waits for the
length of the sounds is not detected."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
Cell = tuple[str, str, str]
"""Trial type, condition and group of listeners, within which listeners are compared."""
ODDS = 0.001
CHANCE = 0.5
ENOUGH = 0.7
"""Sufficient share of the sounds' length: a page counts a sound as heard shortly before its end."""
ROUNDING_S = 1.0
"""Exported times of the server are rounded to seconds."""


def implausible(everyone: Mapping[int, Sequence[Row]]) -> dict[int, str]:
    """For each listener the evidence that their answers are implausible, or an empty text. `everyone`: rows
    of each listener, in order."""
    asked = {who: _asked(rows) for who, rows in everyone.items()}
    right, n = Counter[Cell](), Counter[Cell]()
    for row in (row for rows in asked.values() for row in rows):
        right[_cell(row)] += bool(row["correct"])
        n[_cell(row)] += 1
    return {
        who: _judged(own_rows, everyone[who], right, n) if own_rows else "" for who, own_rows in asked.items()
    }


def _judged(own_rows: Sequence[Row], rows: Sequence[Row], right: Counter[Cell], n: Counter[Cell]) -> str:
    own_right, own_n = (
        Counter(_cell(row) for row in own_rows if row["correct"]),
        Counter(_cell(row) for row in own_rows),
    )
    # of all others, shrunk towards one half if there are few
    others = {cell: (right[cell] - own_right[cell] + 1) / (n[cell] - own_n[cell] + 2) for cell in own_n}
    shares = np.array([max(CHANCE, others[_cell(row)]) for row in own_rows])
    p = at_least(own_right.total(), shares)
    quick = _quick(rows, {row["position"] for row in own_rows})
    if p > ODDS or 2 * quick <= len(own_rows):
        return ""
    return (
        f"{own_right.total()} of {len(own_rows)} right (others {100 * float(shares.mean()):.0f} %, "
        f"p = {p:.1g}), {quick} answers in less time than the sounds last"
    )


def _asked(rows: Sequence[Row]) -> list[Row]:
    """Trials whose correct answer is one of the sounds."""
    return [
        row
        for row in rows
        if row["role"] == "trial" and row["correct"] is not None and row["chosen"] is not None
    ]


def _cell(row: Row) -> Cell:
    return str(row["kind"]), str(row["condition"]), str(row["group"])


def at_least(right: int, shares: Sequence[float] | NDArray[np.float64]) -> float:
    """P(K >= right) of a sum of independent trials with these probabilities."""
    chances = np.array([1.0])
    for p in shares:
        chances = np.convolve(chances, [1 - p, p])
    return float(chances[right:].sum())


def _quick(rows: Sequence[Row], positions: set[int]) -> int:
    """Number of these screens that were answered in less time than their sounds last, according to the page
    for each or to the server's clock for all of a step."""
    screens = list({row["position"]: row for row in rows}.values())
    stamps = [datetime.fromisoformat(row["received_at"]).timestamp() for row in screens]
    asked = [k for k, row in enumerate(screens) if row["position"] in positions and row.get("sounds_s")]
    quick = set()
    for k in asked:
        row = screens[k]
        spent_s = min(
            row["played_s"] or 0.0, math.inf if row["response_ms"] is None else row["response_ms"] / 1000
        )
        if spent_s < ENOUGH * row["sounds_s"]:
            quick.add(k)
    for step in {
        screens[k]["step"] for k in asked if not screens[k].get("simulated")
    }:  # simulated listeners answer at once
        # the time at which the very first screen was shown is unknown
        own_rows = [k for k in asked if screens[k]["step"] == step and k > 0]
        if own_rows and stamps[own_rows[-1]] - stamps[own_rows[0] - 1] + ROUNDING_S < ENOUGH * sum(
            screens[k]["sounds_s"] for k in own_rows
        ):
            quick |= set(own_rows)
    return len(quick)
