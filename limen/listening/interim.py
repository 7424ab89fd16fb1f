"""What a running study may already conclude, looked at as often as one likes: anytime-valid tests of its questions about chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limen.listening._analyse_choices import chance_of
from limen.listening._cells import keys, split_by
from limen.listening.exclusions import exclusions
from limen.listening.statistics import always_valid
from limen.listening.study import Study


@dataclass(frozen=True)
class Interim:
    """One question, for one value of its key."""

    hypothesis: str
    where: str
    right: int
    n: int
    low: float
    """Confidence sequence of the share of right answers: holds at all times at once."""
    high: float
    decided: bool
    """The question is answered with yes: listening may stop for it."""


def interim(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[Interim]:
    """For every hypothesis about chance; `rows` are those of limen.listening.export. Listeners who are still at it count with what they
    answered, those that another rule leaves out do not."""
    left_out = {e.listener for e in exclusions(study, rows).excluded if e.rule != "incomplete"}
    counted = [r for r in rows if r["role"] == "trial" and r["listener"] not in left_out and r["correct"] is not None]
    out = []
    for h in study.hypotheses:
        if h.kind == "different" or (h.by is not None and h.by not in keys(study)):
            continue
        for where, part in split_by(study, [r for r in counted if r["kind"] == h.trial], h.by):
            right, chance = sum(bool(r["correct"]) for r in part), chance_of(study, h.trial, part)
            found = always_valid(right, len(part), chance, h.alpha, h.bound if h.kind == "equivalent" else None)
            decided = found.detected if h.kind == "above_chance" else bool(found.equivalent)
            out.append(Interim(h.name, str(where), right, len(part), found.low, found.high, decided))
    return out
