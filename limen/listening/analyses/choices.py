"""Answers that are right or wrong: shares against chance, sensitivity, confidence, confusion matrices, a
mixed model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from limen.core.errors import UserError
from limen.listening.analysis.answers import TrialAnswers, options_of
from limen.listening.analysis.breakdowns import estimate, keys, order, share_of, units, value
from limen.listening.analysis.result_types import (
    Choices,
    Confidence,
    Confusion,
    Independent,
    Mixed,
    Share,
)
from limen.listening.statistics.agreement import krippendorff_alpha
from limen.listening.statistics.detection import sensitivity
from limen.listening.statistics.hearers import Hearers, hearers
from limen.listening.statistics.mixed_models import mixed_logistic
from limen.listening.statistics.proportions import equivalence, proportion
from limen.listening.statistics.samples import sampled_share
from limen.listening.study import Study
from limen.trials.base.findings import Estimate, Row, Where
from limen.trials.base.trial import Signal, trial_type

OTHER = "other"
LARGEST_MODEL = 1200
"""Number of listeners plus items beyond which the mixed model is not fitted: it would take minutes."""
MOST_TYPED = 12
"""Free-text answers listed in the results."""


def choices(answers: TrialAnswers) -> tuple[Choices | None, list[str]]:
    """None if no answer is right or wrong."""
    study, trial, signal = answers.study, answers.trial, answers.type.signal
    chosen = [row for row in answers.rows if row["choice"] is not None]
    rows = [row for row in chosen if row["correct"] is not None]
    unjudged = sum(row["truth"] is None for row in chosen) if signal is None else 0
    notes = (
        [f"{trial}: {unjudged} answers to items without `answer` have no right or wrong."] if unjudged else []
    )
    if not rows or (signal and signal.needs_both and len({row["truth"] for row in rows}) < 2):
        return None, notes
    chance = chance_of(study, trial, rows)
    levels = _confidences(study, rows)
    cells = answers.cells(rows)
    shares = tuple(share(where, part, signal, chance, answers.bound, levels) for where, part in cells if part)
    confusions: tuple[Confusion, ...] = ()
    typed: tuple[tuple[str, int], ...] = ()
    if signal is None:
        listed = list(dict.fromkeys(item.answer for item in study.items if item.answer is not None))
        confusions = tuple(
            _confusion(where, part, rows, listed)
            for where, part in cells
            if where.keys in ((), ("condition",))
        )
        texts = [str(r["choice"]) for r in rows]
        free = Counter(text.removeprefix("other:") for text in texts if text.startswith("other:"))
        typed = tuple(free.most_common(MOST_TYPED))
    mixed = _mixed(study, rows)
    if mixed is None and shares[0].listeners + shares[0].items > LARGEST_MODEL:
        notes.append(
            f"{trial}: no mixed model, because listeners and items together are more than {LARGEST_MODEL}."
        )
    agreed = _agreement(signal, rows, answers.seed)
    return Choices(trial, shares, confusions, mixed, agreed, typed), notes


def share(
    where: Where,
    rows: Sequence[Row],
    signal: Signal | None,
    chance: float,
    bound: float,
    levels: Sequence[str],
) -> Share:
    """Right answers among the rows; `levels` are the confidences, lowest first."""
    right = [bool(row["correct"]) for row in rows]
    found = proportion(sum(right), len(right), chance)
    listeners, items = [row["listener"] for row in rows], [row["item"] for row in rows]
    sampled = sampled_share(right, listeners, items, chance, bound)
    fits = 0 < bound < min(chance, 1 - chance)
    equal = equivalence(found.successes, found.n, bound, chance).p if fits else None
    d, truncated, c = _sensitivity(signal, rows, estimate(sampled))
    return Share(
        where=where,
        n=found.n,
        right=found.successes,
        share=estimate(sampled),
        listeners=len(set(listeners)),
        items=len(set(items)),
        over=sampled.over,
        design_effect=sampled.design_effect,
        df=sampled.df,
        chance=chance,
        p_greater=sampled.p_greater,
        p_two_sided=sampled.p_two_sided,
        bound=bound,
        p_equivalent=sampled.p_equivalent,
        independent=Independent(
            Estimate(found.share, found.low, found.high), found.p_greater, found.p_two_sided, equal
        ),
        hearers=hearers_of(rows, right, chance),
        d_prime=d,
        d_prime_truncated=truncated,
        bias=c,
        confidence=_by_confidence(rows, levels),
    )


def hearers_of(rows: Sequence[Row], right: Sequence[bool], chance: float, sides: int = 1) -> Hearers:
    counts: dict[Any, list[int]] = {}
    for row, good in zip(rows, right, strict=True):
        of_listener = counts.setdefault(row["listener"], [0, 0])
        of_listener[0] += bool(good)
        of_listener[1] += 1
    return hearers([k for k, _ in counts.values()], [m for _, m in counts.values()], chance, sides)


def chance_of(study: Study, trial: str, rows: Sequence[Row]) -> float:
    """Share of right answers that guessing gives, as the trial type declares it."""
    if trial_type(trial).signal is not None:
        return 0.5
    return options_of(study, rows[0]["step"]).chance(study.items)


def _confidences(study: Study, rows: Sequence[Row]) -> list[str]:
    """Confidences in the order of the study file, lowest first."""
    given = {row["confidence"] for row in rows} - {None}
    steps = {row["step"] for row in rows}
    listed = [c for k in sorted(steps) for c in options_of(study, k).confidences()]
    return list(dict.fromkeys([*listed, *sorted(given)])) if given else []


def _by_confidence(rows: Sequence[Row], levels: Sequence[str]) -> tuple[Confidence, ...]:
    answered = [row for row in rows if row["confidence"] is not None]
    out = []
    for level in levels if answered else ():
        part = [row for row in answered if row["confidence"] == level]
        right = [bool(row["correct"]) for row in part]
        share_right = share_of(part, right) if part else Estimate(None)
        out.append(Confidence(level, len(part), len(part) / len(answered), sum(right), share_right))
    return tuple(out)


def _sensitivity(
    signal: Signal | None, rows: Sequence[Row], share: Estimate
) -> tuple[Estimate, Estimate, float | None]:
    """d', d' truncated at 0, and bias. The interval of d' follows from that of the share."""
    if signal is None:
        return Estimate(None), Estimate(None), None
    signals = [row for row in rows if row["truth"] == signal.answer]
    noises = [row for row in rows if row["truth"] != signal.answer]
    if not signals or not noises:
        return Estimate(None), Estimate(None), None
    hits, alarms = (sum(row["choice"] == signal.answer for row in part) for part in (signals, noises))
    ends = None if share.low is None or share.high is None else (share.low, share.high)
    found = sensitivity(hits, len(signals), alarms, len(noises), signal.design, interval=ends)
    d = replace(share, value=found.dprime, low=found.low, high=found.high)
    low, high = (None if end is None else max(0.0, end) for end in (found.low, found.high))
    return d, replace(d, value=found.truncated, low=low, high=high), found.bias


def _confusion(
    where: Where, rows: Sequence[Row], all_rows: Sequence[Row], listed: Sequence[str]
) -> Confusion:
    """Words in the order of the study file, the same for every condition; free-text answers last."""
    given = {_chosen(row) for row in all_rows} | {str(row["truth"]) for row in all_rows}
    answers = [*(w for w in listed if w in given), *sorted(given - set(listed) - {OTHER})] + [OTHER] * (
        OTHER in given
    )
    truths = [a for a in answers if a in {str(row["truth"]) for row in rows}]
    count = Counter((str(row["truth"]), _chosen(row)) for row in rows)
    return Confusion(
        where, tuple(truths), tuple(answers), tuple(tuple(count[t, a] for a in answers) for t in truths)
    )


def _chosen(row: Row) -> str:
    return OTHER if str(row["choice"]).startswith("other:") else str(row["choice"])


def _agreement(signal: Signal | None, rows: Sequence[Row], seed: int) -> Estimate:
    """Krippendorff's alpha of the answers. In a task of signal detection theory it is that of being right,
    because which clip is A differs between listeners."""
    codes = {answer: k for k, answer in enumerate(sorted({str(row["choice"]) for row in rows}))}

    def coded(row: Row) -> float:
        return float(codes[str(row["choice"])] if signal is None else bool(row["correct"]))

    try:
        found = krippendorff_alpha(units(rows, coded), seed=seed)
    except UserError:  # no two listeners heard the same item and condition
        return Estimate(None)
    return Estimate(found.value, found.low, found.high, "items")


def _mixed(study: Study, rows: Sequence[Row]) -> Mixed | None:
    """Condition and each factor as contrasts with their first value; None if there is one listener or item,
    or too many."""
    listeners, items = {row["listener"] for row in rows}, {row["item"] for row in rows}
    if min(len(listeners), len(items)) < 2 or len(listeners) + len(items) > LARGEST_MODEL:
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
