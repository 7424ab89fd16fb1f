"""Preferences between conditions, and what listeners typed against what was said."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from limen.core.edits import edits
from limen.core.text import normalised
from limen.listening.analysis.breakdowns import cells, estimate, mean_of, order, share_of
from limen.listening.analysis.result_types import (
    Estimate,
    Preference,
    PreferencePair,
    Transcribed,
    Transcriptions,
    Where,
)
from limen.listening.statistics.proportions import proportion
from limen.listening.statistics.samples import sampled_share
from limen.listening.statistics.scaling import bradley_terry
from limen.listening.study import Study

Row = Mapping[str, Any]


def rivals(study: Study, row: Row) -> tuple[str, str]:
    """The two conditions of a comparison, in the order of the study file; a row names them as "first /
    second"."""
    known = {c for item in study.items for c in item.files}
    parts = str(row["condition"]).split(" / ")
    pairs = [(" / ".join(parts[:k]), " / ".join(parts[k:])) for k in range(1, len(parts))]
    first, second = next((pair for pair in pairs if set(pair) <= known), pairs[0])
    return (first, second) if order(study, "condition", {first, second})[0] == first else (second, first)


def preference(study: Study, kind: str, rows: Sequence[Row], seed: int) -> Preference:
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault(rivals(study, row), []).append(row)
    winners, losers, who = [], [], []
    for (first, second), mine in pairs.items():
        for row in mine:
            # a tie is half a win of each: entered once each way, and every other answer twice
            won = [first, second] if row["chosen"] is None else [row["chosen"]] * 2
            winners += won
            losers += [second if w == first else first for w in won]
            who += [str(row["listener"])] * 2
    people = set(who)
    scale = bradley_terry(winners, losers, who, seed=seed) if len(people) > 1 else ()
    worth = tuple((s.item, Estimate(s.strength, s.low, s.high, "listeners")) for s in scale)
    return Preference(kind, len(rows), tuple(_pair(*pair, mine) for pair, mine in pairs.items()), worth)


def _pair(first: str, second: str, rows: Sequence[Row]) -> PreferencePair:
    """The test is about those who chose; a tie says nothing for either side."""
    won, lost = (sum(row["chosen"] == c for row in rows) for c in (first, second))
    ties = len(rows) - won - lost
    if not won + lost:
        return PreferencePair(first, second, len(rows), ties, ties / 2, Estimate(None), None, 1.0)
    chose = [row for row in rows if row["chosen"] is not None]
    held = sampled_share(
        [row["chosen"] == first for row in chose], [r["listener"] for r in chose], [r["item"] for r in chose]
    )
    exact = proportion(won, won + lost).p_two_sided
    share = estimate(held)
    return PreferencePair(first, second, len(rows), ties, won + ties / 2, share, held.p_two_sided, exact)


def transcriptions(study: Study, kind: str, rows: Sequence[Row]) -> Transcriptions:
    counted = [{**row, **_errors(row)} for row in rows]
    mistakes = Counter((str(row["truth"]), str(row["text"])) for row in counted if row["errors"])
    worst = tuple((said, typed, n) for (said, typed), n in mistakes.most_common(20))
    return Transcriptions(
        kind, tuple(_transcribed(where, mine) for where, mine in cells(study, counted) if mine), worst
    )


def _errors(row: Row) -> dict[str, int]:
    said, typed = (normalised(str(row[name] or ""), "words").split() for name in ("truth", "text"))
    return {"errors": edits(said, typed).errors, "words": len(said)}


def _transcribed(where: Where, rows: Sequence[Row]) -> Transcribed:
    """The word error rate is a ratio of sums: judged as the mean of what each answer adds to it
    (linearised)."""
    errors, words = (sum(row[name] for row in rows) for name in ("errors", "words"))
    rate = errors / max(words, 1)
    added = [rate + (row["errors"] - rate * row["words"]) * len(rows) / max(words, 1) for row in rows]
    exact = share_of(rows, [row["errors"] == 0 for row in rows])
    return Transcribed(where, len(rows), exact, mean_of(added, rows, within=(0.0, math.inf)))
