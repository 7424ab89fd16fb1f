"""Trial types with a right answer: shares against chance, sensitivity, confidence, confusions, a mixed
model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from limen.core.components import parse
from limen.core.errors import UserError
from limen.listening.analysis.breakdowns import cells, estimate, keys, order, share_of, units, value
from limen.listening.analysis.result_types import (
    Choices,
    Confusion,
    Estimate,
    Independent,
    Mixed,
    Share,
    Sure,
    Where,
)
from limen.listening.statistics.agreement import krippendorff_alpha
from limen.listening.statistics.detection import sensitivity
from limen.listening.statistics.hearers import Hearers, hearers
from limen.listening.statistics.mixed_models import mixed_logistic
from limen.listening.statistics.proportions import equivalence, proportion
from limen.listening.statistics.samples import sampled_share
from limen.listening.study import Study

Row = Mapping[str, Any]
OTHER = "other"
LARGEST_MODEL = 1200
"""Listeners and items together beyond which the mixed model is left out: it would take minutes."""
SIGNAL = {"abx": ("A", "abx"), "same_different": ("different", "same-different")}
"""What counts as a hit when it is true and as a false alarm when it is not, and the design of signal
detection theory."""


def choices(study: Study, kind: str, rows: Sequence[Row], bound: float, seed: int) -> Choices:
    """`rows` are trials of one type, each with a truth."""
    chance = chance_of(study, kind, rows)
    levels = _confidences(study, rows)
    sorted_ = cells(study, rows)
    shares = tuple(share(where, mine, kind, chance, bound, levels) for where, mine in sorted_ if mine)
    confusions: tuple[Confusion, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    if kind not in SIGNAL:
        whole_or_condition = [(where, mine) for where, mine in sorted_ if where.keys in ((), ("condition",))]
        listed = list(dict.fromkeys(item.answer for item in study.items if item.answer is not None))
        confusions = tuple(_confusion(where, mine, rows, listed) for where, mine in whole_or_condition)
        typed = Counter(
            str(r["choice"]).removeprefix("other:") for r in rows if str(r["choice"]).startswith("other:")
        )
        others = tuple(typed.most_common(12))
    return Choices(kind, shares, confusions, _mixed(study, rows), _agreement(kind, rows, seed), others)


def share(
    where: Where, rows: Sequence[Row], kind: str, chance: float, bound: float, levels: Sequence[str]
) -> Share:
    right = [bool(row["correct"]) for row in rows]
    found = proportion(sum(right), len(right), chance)
    people, items = [row["listener"] for row in rows], [row["item"] for row in rows]
    held = sampled_share(right, people, items, chance, bound)
    fits = 0 < bound < min(chance, 1 - chance)
    equal = equivalence(found.successes, found.n, bound, chance).p if fits else None
    d, truncated, c = _sensitivity(kind, rows, estimate(held))
    return Share(
        where=where,
        n=found.n,
        right=found.successes,
        share=estimate(held),
        listeners=len(set(people)),
        items=len(set(items)),
        over=held.over,
        design_effect=held.design_effect,
        df=held.df,
        chance=chance,
        p_greater=held.p_greater,
        p_two_sided=held.p_two_sided,
        bound=bound,
        p_equivalent=held.p_equivalent,
        independent=Independent(
            Estimate(found.share, found.low, found.high), found.p_greater, found.p_two_sided, equal
        ),
        hearers=hearers_of(rows, right, chance),
        d_prime=d,
        d_prime_truncated=truncated,
        bias=c,
        sure=_sure(rows, levels),
    )


def hearers_of(rows: Sequence[Row], right: Sequence[bool], chance: float, sides: int = 1) -> Hearers:
    counts: dict[Any, list[int]] = {}
    for row, good in zip(rows, right, strict=True):
        mine = counts.setdefault(row["listener"], [0, 0])
        mine[0] += bool(good)
        mine[1] += 1
    return hearers([k for k, _ in counts.values()], [m for _, m in counts.values()], chance, sides)


def chance_of(study: Study, kind: str, rows: Sequence[Row]) -> float:
    """What guessing gives: one of two, or one of the words that could be chosen."""
    if kind in SIGNAL:
        return 0.5
    options = parse("trials", study.steps[rows[0]["step"]])[1]
    listed = getattr(options, "choices", None) or getattr(options, "identify", None)
    words = (
        listed
        if isinstance(listed, list)
        else list(dict.fromkeys(i.answer for i in study.items if i.answer is not None))
    )
    return 1 / max(len(words), 2)


def _confidences(study: Study, rows: Sequence[Row]) -> list[str]:
    """Confidences in the order of the study file, lowest first."""
    given = {row["confidence"] for row in rows} - {None}
    steps = {row["step"] for row in rows}
    listed = [c for k in sorted(steps) for c in getattr(parse("trials", study.steps[k])[1], "confidence", [])]
    return [c for c in dict.fromkeys([*listed, *sorted(given)])] if given else []


def _sure(rows: Sequence[Row], levels: Sequence[str]) -> tuple[Sure, ...]:
    said = [row for row in rows if row["confidence"] is not None]
    out = []
    for level in levels if said else ():
        mine = [row for row in said if row["confidence"] == level]
        right = [bool(row["correct"]) for row in mine]
        out.append(
            Sure(
                level,
                len(mine),
                len(mine) / len(said),
                sum(right),
                share_of(mine, right) if mine else Estimate(None),
            )
        )
    return tuple(out)


def _sensitivity(kind: str, rows: Sequence[Row], share: Estimate) -> tuple[Estimate, Estimate, float | None]:
    """d', the same with 0 below chance, and bias. Its interval comes from that of the share."""
    if kind not in SIGNAL:
        return Estimate(None), Estimate(None), None
    signal, design = SIGNAL[kind]
    signals, noises = (
        [row for row in rows if (row["truth"] == signal) == is_signal] for is_signal in (True, False)
    )
    if not signals or not noises:
        return Estimate(None), Estimate(None), None
    hits, alarms = (sum(row["choice"] == signal for row in mine) for mine in (signals, noises))
    ends = None if share.low is None or share.high is None else (share.low, share.high)
    found = sensitivity(hits, len(signals), alarms, len(noises), design, interval=ends)  # type: ignore[arg-type]
    d = replace(share, value=found.dprime, low=found.low, high=found.high)
    low, high = (None if end is None else max(0.0, end) for end in (found.low, found.high))
    return d, replace(d, value=found.truncated, low=low, high=high), found.bias


def _confusion(
    where: Where, rows: Sequence[Row], all_rows: Sequence[Row], listed: Sequence[str]
) -> Confusion:
    """Words in the order of the study file, the same for every condition; free answers last."""
    said = lambda row: OTHER if str(row["choice"]).startswith("other:") else str(row["choice"])
    given = {said(row) for row in all_rows} | {str(row["truth"]) for row in all_rows}
    answers = [*(w for w in listed if w in given), *sorted(given - set(listed) - {OTHER})] + [OTHER] * (
        OTHER in given
    )
    truths = [a for a in answers if a in {str(row["truth"]) for row in rows}]
    count = Counter((str(row["truth"]), said(row)) for row in rows)
    return Confusion(
        where, tuple(truths), tuple(answers), tuple(tuple(count[t, a] for a in answers) for t in truths)
    )


def _agreement(kind: str, rows: Sequence[Row], seed: int) -> Estimate:
    """Of what was answered; in ABX and same/different of who was right, because which clip is A differs
    between listeners."""
    said = {answer: k for k, answer in enumerate(sorted({str(row["choice"]) for row in rows}))}
    try:
        found = krippendorff_alpha(
            units(
                rows,
                lambda row: (
                    float(bool(row["correct"])) if kind in SIGNAL else float(said[str(row["choice"])])
                ),
            ),
            seed=seed,
        )
    except UserError:  # nobody heard what somebody else heard
        return Estimate(None)
    return Estimate(found.value, found.low, found.high, "items")


def _mixed(study: Study, rows: Sequence[Row]) -> Mixed | None:
    """Condition and each factor as contrasts with their first value; None where there is one listener or
    item, or too many."""
    people, items = {row["listener"] for row in rows}, {row["item"] for row in rows}
    if min(len(people), len(items)) < 2 or len(people) + len(items) > LARGEST_MODEL:
        return None
    columns: dict[str, tuple[str, str]] = {}
    for key, column in keys(study).items():
        found = order(study, key, {value(row, column) for row in rows} - {""})
        if key != "group" and 1 < len(found) <= 6:
            columns |= {f"{key}: {v} against {found[0]}": (column, v) for v in found[1:]}
    coded = [
        {"correct": row["correct"], "listener": row["listener"], "item": row["item"]}
        | {name: float(value(row, column) == v) for name, (column, v) in columns.items()}
        for row in rows
    ]
    model = mixed_logistic(coded, fixed=list(columns))
    effects = model.effects
    return Mixed(
        names=tuple("all at their first value" if e.name == "intercept" else e.name for e in effects),
        log_odds=tuple(Estimate(e.value, e.low, e.high) for e in effects),
        p=tuple(e.p for e in effects),
        listener_sd=model.spreads["listener"],
        item_sd=model.spreads["item"],
    )
