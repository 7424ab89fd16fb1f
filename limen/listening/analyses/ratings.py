"""Ratings on a scale of a few steps: distributions by condition, and whether conditions differ."""

import math
from collections.abc import Sequence

from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.rating_cells import agreement, cell, compare
from limen.listening.analysis.result_types import Rated
from limen.trials.base.findings import Row


def ratings(answers: TrialAnswers) -> tuple[Rated | None, list[str]]:
    rows = [row for row in answers.rows if row["rating"] is not None]
    if not rows or any(row["sound"] is not None for row in rows):
        return None, []
    levels = _levels(answers, rows)
    k = len(levels)
    good_from, bad_to = levels[min(math.ceil(0.6 * k), k - 1)], levels[max(math.floor(0.4 * k) - 1, 0)]
    cells = answers.cells(rows)
    found = tuple(cell(where, part, levels, good_from, bad_to) for where, part in cells if part)
    compared = [
        c
        for where, part in cells
        if "condition" not in where.keys
        for c in compare(answers.study, where, part, answers.seed)
    ]
    agreed = agreement(rows, "ordinal", answers.seed)
    return Rated(answers.trial, levels, good_from, bad_to, found, tuple(compared), agreed), []


def _levels(answers: TrialAnswers, rows: Sequence[Row]) -> tuple[float, ...]:
    """Steps of the scale: those of the trial type, or those between the lowest and the highest rating."""
    if declared := answers.options_of(rows[0]).levels():
        return declared
    given = sorted({row["rating"] for row in rows})
    if given[-1] - given[0] > 10:
        return tuple(given)
    return tuple(float(k) for k in range(math.floor(given[0]), math.ceil(given[-1]) + 1))
