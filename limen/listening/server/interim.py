"""What a running study may already conclude, looked at as often as one likes: anytime-valid tests of its
questions about chance.

Listeners are what is counted, so answers of one listener may resemble each other; they are taken to come in
random order. What is said holds for the clips of the study; whether it does for other clips is judged once,
at the end, by `limen listen analyze`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limen.listening.analyses.choices import chance_of
from limen.listening.analysis.breakdowns import keys, split_by
from limen.listening.analysis.exclusions import by_listener, exclusions
from limen.listening.statistics import bets
from limen.listening.statistics.hearers import FEW, hearers_at_all_times
from limen.listening.study import Hypothesis, Study
from limen.trials.base.trial import trial_type


@dataclass(frozen=True)
class Interim:
    """One question, for one value of its key."""

    hypothesis: str
    where: str
    right: int
    n: int
    listeners: int
    """Who finished: others do not count yet."""
    low: float
    """Confidence sequence of the mean share of right answers, for the clips of this study: holds at all times
    at once."""
    high: float
    may_hear: float | None
    """Upper bound, at all times, of the share of listeners who may hear it; only for equivalence."""
    decided: bool
    """The question is answered with yes, for the clips of this study: listening may stop for it. Equivalence
    needs both: the mean within the bound, and few listeners who may hear it. To be wrong, one of the two must
    be, so neither level has to be split."""


def interim(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[Interim]:
    """For every hypothesis about chance; `rows` are those of limen.listening.analysis.export. Listeners count
    once they have finished, in that order; those that a rule leaves out do not."""
    left_out = {e.listener for e in exclusions(study, rows).excluded}
    counted = [
        r
        for r in rows
        if r["role"] == "trial"
        and r["finished"]
        and r["listener"] not in left_out
        and r["correct"] is not None
    ]
    out = []
    for h in study.hypotheses:
        right_or_wrong = h.kind != "different" and not trial_type(h.trial).two_sided
        if not right_or_wrong or (h.by is not None and h.by not in keys(study)):
            continue
        for where, part in split_by(study, [r for r in counted if r["kind"] == h.trial], h.by):
            if part:
                out.append(_look(study, h, str(where), part))
    return out


def _look(study: Study, h: Hypothesis, where: str, rows: Sequence[Mapping[str, Any]]) -> Interim:
    by = sorted(by_listener(rows).values(), key=lambda mine: max(str(r["received_at"]) for r in mine))
    right, asked = [sum(bool(r["correct"]) for r in mine) for mine in by], [len(mine) for mine in by]
    chance, equal = chance_of(study, h.trial, rows), h.kind == "equivalent"
    found = bets(
        [k / m for k, m in zip(right, asked, strict=True)], chance, h.alpha, h.bound if equal else None
    )
    may_hear = hearers_at_all_times(right, asked, study.listeners, chance, h.alpha) if equal else None
    decided = found.detected if may_hear is None else bool(found.equivalent) and may_hear <= FEW
    return Interim(h.name, where, sum(right), len(rows), len(by), found.low, found.high, may_hear, decided)
