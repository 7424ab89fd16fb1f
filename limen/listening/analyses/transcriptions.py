"""Texts typed by listeners, compared with the text that was spoken: word error rates."""

import math
from collections import Counter
from collections.abc import Sequence

from limen.core.edits import edits
from limen.core.text import normalised
from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.breakdowns import mean_of, share_of
from limen.listening.analysis.result_types import Transcribed, Transcriptions
from limen.trials.base.findings import Row, Where

MOST_MISTAKES = 20
"""Mistakes listed in the results."""


def transcriptions(answers: TrialAnswers) -> tuple[Transcriptions | None, list[str]]:
    """None if no item has an `answer`."""
    rows = [{**row, **_errors(row)} for row in answers.rows if row["truth"] is not None]
    if not rows:
        return None, []
    mistakes = Counter((str(row["truth"]), str(row["text"])) for row in rows if row["errors"])
    frequent = tuple((spoken, typed, n) for (spoken, typed), n in mistakes.most_common(MOST_MISTAKES))
    cells = tuple(_transcribed(where, part) for where, part in answers.cells(rows) if part)
    return Transcriptions(answers.trial, cells, frequent), []


def _errors(row: Row) -> dict[str, int]:
    spoken, typed = (normalised(str(row[name] or ""), "words").split() for name in ("truth", "text"))
    return {"errors": edits(spoken, typed).errors, "words": len(spoken)}


def _transcribed(where: Where, rows: Sequence[Row]) -> Transcribed:
    """The word error rate is a ratio of sums; its interval is that of the mean of each answer's contribution
    (linearised)."""
    errors, words = (sum(row[name] for row in rows) for name in ("errors", "words"))
    rate = errors / max(words, 1)
    added = [rate + (row["errors"] - rate * row["words"]) * len(rows) / max(words, 1) for row in rows]
    exact = share_of(rows, [row["errors"] == 0 for row in rows])
    return Transcribed(where, len(rows), exact, mean_of(added, rows, within=(0.0, math.inf)))
