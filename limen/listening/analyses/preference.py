"""Preferences between two conditions: shares, tests, and a Bradley-Terry scale of all conditions."""

from collections.abc import Sequence

from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.breakdowns import estimate, order
from limen.listening.analysis.result_types import Preference, PreferencePair
from limen.listening.statistics.proportions import proportion
from limen.listening.statistics.samples import sampled_share
from limen.listening.statistics.scaling import bradley_terry
from limen.listening.study import Study
from limen.trials.base.findings import Estimate, Row


def preference(answers: TrialAnswers) -> tuple[Preference | None, list[str]]:
    rows = answers.rows
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault(compared(answers.study, row), []).append(row)
    winners, losers, listeners = [], [], []
    for (first, second), part in pairs.items():
        for row in part:
            # a tie is half a win for each: entered once each way, and every other answer twice
            won = [first, second] if row["chosen"] is None else [row["chosen"]] * 2
            winners += won
            losers += [second if w == first else first for w in won]
            listeners += [str(row["listener"])] * 2
    several = len(set(listeners)) > 1
    scale = bradley_terry(winners, losers, listeners, seed=answers.seed) if several else ()
    worth = tuple((s.item, Estimate(s.strength, s.low, s.high, "listeners")) for s in scale)
    found = tuple(_pair(*pair, part) for pair, part in pairs.items())
    return Preference(answers.trial, len(rows), found, worth), []


def compared(study: Study, row: Row) -> tuple[str, str]:
    """The two conditions of a comparison, in the order of the study file; a row names them as "first /
    second"."""
    known = {c for item in study.items for c in item.files}
    parts = str(row["condition"]).split(" / ")
    pairs = [(" / ".join(parts[:k]), " / ".join(parts[k:])) for k in range(1, len(parts))]
    first, second = next((pair for pair in pairs if set(pair) <= known), pairs[0])
    return (first, second) if order(study, "condition", {first, second})[0] == first else (second, first)


def _pair(first: str, second: str, rows: Sequence[Row]) -> PreferencePair:
    """The test uses the answers without ties."""
    won, lost = (sum(row["chosen"] == c for row in rows) for c in (first, second))
    ties = len(rows) - won - lost
    if not won + lost:
        return PreferencePair(first, second, len(rows), ties, ties / 2, Estimate(None), None, 1.0)
    chose = [row for row in rows if row["chosen"] is not None]
    sampled = sampled_share(
        [row["chosen"] == first for row in chose], [r["listener"] for r in chose], [r["item"] for r in chose]
    )
    exact = proportion(won, won + lost).p_two_sided
    share = estimate(sampled)
    return PreferencePair(first, second, len(rows), ties, won + ties / 2, share, sampled.p_two_sided, exact)
