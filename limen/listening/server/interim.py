"""Interim results of a running study, by tests that may be repeated at any time: its hypotheses about chance.

Listeners are the unit of the tests, so answers of one listener may be correlated; listeners are assumed to
finish in random order. Results hold for the clips of the study; whether they generalise to other clips is
tested once, at the end, by `limen listen analyze`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limen.listening.analyses.choices import chance_of
from limen.listening.analysis.breakdowns import keys, split_by
from limen.listening.analysis.exclusions import by_listener, exclusions
from limen.listening.statistics.betting import bets
from limen.listening.statistics.hearers import FEW, hearers_at_all_times
from limen.listening.study import Hypothesis, Study
from limen.trials.base.trial import trial_type


@dataclass(frozen=True)
class Interim:
    """The interim result of one hypothesis, for one value of its `by`."""

    hypothesis: str
    where: str
    right: int
    n: int
    listeners: int
    """Listeners who have finished; others do not count yet."""
    low: float
    """Confidence sequence of the mean share of right answers, for the clips of this study; valid at all times
    simultaneously."""
    high: float
    may_hear: float | None
    """Upper bound, valid at all times, of the share of listeners who may hear it; only for equivalence."""
    decided: bool
    """The hypothesis is confirmed for the clips of this study, and listening may stop for it. Equivalence
    requires both: the mean within the bound, and few listeners who may hear it. A wrong confirmation requires
    that one of the two is wrong, so the level need not be split between them."""


def interim(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[Interim]:
    """Interim results of all hypotheses about chance. `rows` are those of limen.listening.analysis.export.
    Listeners count from when they finish, in that order, unless an exclusion rule applies to them."""
    excluded = {e.listener for e in exclusions(study, rows).excluded}
    counted = [
        r
        for r in rows
        if r["role"] == "trial"
        and r["finished"]
        and r["listener"] not in excluded
        and r["correct"] is not None
    ]
    results = []
    for h in study.hypotheses:
        right_or_wrong = h.kind != "different" and not trial_type(h.trial).two_sided
        if not right_or_wrong or (h.by is not None and h.by not in keys(study)):
            continue
        for where, part in split_by(study, [r for r in counted if r["kind"] == h.trial], h.by):
            if part:
                results.append(_interim(study, h, str(where), part))
    return results


def _interim(study: Study, h: Hypothesis, where: str, rows: Sequence[Mapping[str, Any]]) -> Interim:
    listeners = sorted(
        by_listener(rows).values(), key=lambda own_rows: max(str(r["received_at"]) for r in own_rows)
    )
    right = [sum(bool(r["correct"]) for r in own_rows) for own_rows in listeners]
    trials = [len(own_rows) for own_rows in listeners]
    chance, equivalence = chance_of(study, h.trial, rows), h.kind == "equivalent"
    shares = [k / m for k, m in zip(right, trials, strict=True)]
    mean = bets(shares, chance, h.alpha, h.bound if equivalence else None)
    may_hear, decided = None, mean.detected
    if equivalence:
        may_hear = hearers_at_all_times(right, trials, study.listeners, chance, h.alpha)
        decided = bool(mean.equivalent) and may_hear <= FEW
    return Interim(
        h.name, where, sum(right), len(rows), len(listeners), mean.low, mean.high, may_hear, decided
    )
