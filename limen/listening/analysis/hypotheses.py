"""The questions of the study file, each answered for every value of its key, with Holm's correction over all
of them.

Every p, verdict and interval holds for other listeners and other items
(`limen.listening.statistics.samples`); the plain exact test stands beside it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from limen.listening.analysis.breakdowns import estimate, key_of, keys, split_by
from limen.listening.analysis.choices import chance_of, hearers_of
from limen.listening.analysis.ratings import compare, contrast
from limen.listening.analysis.result_types import Estimate, Rated, Where
from limen.listening.analysis.results import HypothesisResult
from limen.listening.analysis.words import rivals
from limen.listening.statistics.hearers import Hearers
from limen.listening.statistics.power import power_detect, power_equivalence
from limen.listening.statistics.proportions import equivalence, holm, proportion
from limen.listening.statistics.ratings import compare_ratings
from limen.listening.statistics.samples import sampled_share
from limen.listening.study import Hypothesis, Study

Row = Mapping[str, Any]
MOST_ALIKE = 0.9
"""Correlation of two answers of one listener that power is worked out with, at most."""
FEWEST = 2
"""Listeners that anything can be said from about others."""


@dataclass(frozen=True)
class _Test:
    """What a test gave, before its hypothesis is put to it."""

    p: float | None
    p_independent: float
    interval: Estimate
    words: str
    method: str
    power: Callable[[float], float] | None = None
    """At a level: that of the correction is known once all questions are."""
    hearers: Hearers | None = None


def answered(
    study: Study, rows: Mapping[str, Sequence[Row]], rated: Sequence[Rated], seed: int
) -> tuple[HypothesisResult, ...]:
    """`rows` are the trials that count, by trial type."""
    out: list[HypothesisResult] = []
    powers: dict[int, Callable[[float], float]] = {}
    for h in study.hypotheses:
        if h.by is not None and h.by not in keys(study):
            out.append(_none(h, Where((h.by,), ("?",)), f"no item has a factor {h.by}"))
            continue
        for where, part in split_by(study, rows.get(h.trial, ()), key_of(h)) or [(Where(), [])]:
            found = _one(study, h, where, part, rated, seed)
            if not isinstance(found, str) and found.power:
                powers[len(out)] = found.power
            out.append(
                _none(h, where, found) if isinstance(found, str) else _answer(h, where, len(part), found)
            )
    known = [k for k, a in enumerate(out) if a.p is not None]
    for k, p in zip(known, holm([float(out[k].p or 0.0) for k in known]).p, strict=True):
        power = powers[k](out[k].alpha / len(known)) if k in powers else None
        out[k] = replace(out[k], p_corrected=p, holds=p < out[k].alpha, power=power)
    return tuple(out)


def _none(h: Hypothesis, where: Where, why: str) -> HypothesisResult:
    return HypothesisResult(
        h.name, h.kind, h.trial, where, 0, None, None, None, h.alpha, None, None, why, Estimate(None), ""
    )


def _answer(h: Hypothesis, where: Where, n: int, t: _Test) -> HypothesisResult:
    return HypothesisResult(
        h.name,
        h.kind,
        h.trial,
        where,
        n,
        t.p,
        None,
        t.p_independent,
        h.alpha,
        None,
        None,
        t.words,
        t.interval,
        t.method,
        t.hearers,
    )


def _one(
    study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], rated: Sequence[Rated], seed: int
) -> _Test | str:
    """A string says why there is nothing to judge by."""
    if not rows:
        return "no answers to judge by"
    if len({row["listener"] for row in rows}) < FEWEST:
        return "answers of one listener say nothing about others"
    if h.trial == "preference":
        return _preferred(study, h, [row for row in rows if row["chosen"] is not None])
    if h.kind == "different":
        numbers = any(row["rating"] is not None for row in rows)
        return (
            _ratings_differ(study, h, where, rows, rated, seed)
            if numbers
            else _shares_differ(study, rows, seed)
        )
    judged = [row for row in rows if row["correct"] is not None]
    if not judged:
        return "nothing here is right or wrong"
    return _against_chance(
        h, judged, [bool(row["correct"]) for row in judged], chance_of(study, h.trial, judged), "right"
    )


def _preferred(study: Study, h: Hypothesis, rows: Sequence[Row]) -> _Test | str:
    """The condition that stands first in the study file counts as a success; ties are left out."""
    if not rows:
        return "nobody preferred anything"
    names = {rivals(study, row)[0] for row in rows}
    what = (
        f"for {names.pop()}" if len(names) == 1 else "for the condition that stands first in the study file"
    )
    return _against_chance(h, rows, [row["chosen"] == rivals(study, row)[0] for row in rows], 0.5, what)


def _against_chance(
    h: Hypothesis, rows: Sequence[Row], right: Sequence[bool], chance: float, what: str
) -> _Test | str:
    if h.kind == "equivalent" and h.bound >= min(chance, 1 - chance):
        return f"a bound of {h.bound:g} is wider than chance ({chance:.3g}) allows"
    k, n = sum(right), len(right)
    found = sampled_share(right, [r["listener"] for r in rows], [r["item"] for r in rows], chance, h.bound)
    if found.low is None or found.high is None or found.design_effect is None or found.df is None:
        return "answers of one listener say nothing about others"
    plain, effect, df = proportion(k, n, chance), found.design_effect, found.df
    interval = estimate(found)
    words = f"{k} of {n} {what}, {100 * found.value:.1f} % ({100 * found.low:.1f}–{100 * found.high:.1f})"
    over = f"over {found.over}"
    if h.kind == "different":
        return _Test(found.p_two_sided, plain.p_two_sided, interval, words, f"share {over}, two-sided")
    if h.kind == "above_chance":
        to_detect = (
            (lambda alpha: power_detect(n, h.effect, chance, alpha, effect, df))
            if h.effect > chance
            else None
        )
        return _Test(found.p_greater, plain.p_greater, interval, words, f"share {over}, one-sided", to_detect)
    sides, asked = 2 if h.trial == "preference" else 1, list(Counter(r["listener"] for r in rows).values())
    heard = hearers_of(rows, right, chance, sides)
    # as if only listeners made answers alike
    icc = min(max((effect - 1) * len(asked) / max(n - len(asked), 1), 0.0), MOST_ALIKE)
    power = lambda alpha: power_equivalence(asked, h.bound, chance, chance, alpha, effect, df, icc, sides)
    exact, method = (
        equivalence(k, n, h.bound, chance, h.alpha).p,
        f"two one-sided tests {over}, bound {100 * h.bound:.0f} points",
    )
    may = "have a clear preference" if h.trial == "preference" else "hear it"
    words += f"; up to {100 * heard.high:.0f} % of listeners may {may}"
    return _Test(found.p_equivalent, exact, interval, words, method, power, heard)


def _ratings_differ(
    study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], rated: Sequence[Rated], seed: int
) -> _Test | str:
    """Of several pairs of conditions the smallest p, corrected by Holm, decides. A MUSHRA test was corrected
    when it was summed up."""
    known = [
        (part, c) for part in rated if part.kind == h.trial for c in part.comparisons if c.where == where
    ]
    compared = [c for c in [c for _, c in known] or compare(study, where, rows, seed) if c.p is not None]
    if not compared:
        return "only one condition was rated"
    sliders = any(not part.levels for part, _ in known)
    used, plain = [float(c.p or 0.0) for c in compared], [c.p_independent for c in compared]
    adjusted, exact = (used, plain) if sliders else (list(holm(used).p), list(holm(plain).p))
    best = min(range(len(used)), key=lambda k: adjusted[k])
    c = compared[best]
    more = f", smallest of {len(used)} pairs" if len(used) > 1 else ""
    words = f"{c.conditions[1]} less {c.conditions[0]}: {_size(c.difference)}"
    return _Test(adjusted[best], min(exact), c.difference, words, f"difference of means over {c.over}{more}")


def _size(gap: Estimate, scale: float = 1.0, how: str = "+.2f") -> str:
    ends = (
        ""
        if gap.low is None or gap.high is None
        else f" ({scale * gap.low:{how}} to {scale * gap.high:{how}})"
    )
    return f"{scale * (gap.value or 0.0):{how}}{ends}".replace("-", "−")


def _shares_differ(study: Study, rows: Sequence[Row], seed: int) -> _Test | str:
    by = [
        (inner.values[0], part)
        for inner, part in split_by(study, [r for r in rows if r["correct"] is not None], "condition")
    ]
    if len(by) != 2:
        return f"two conditions with right and wrong answers were expected, but {len(by)} came"
    (a, first), (b, second) = by
    right = [[float(bool(r["correct"])) for r in part] for part in (first, second)]
    held = contrast(first, second, right[0] + right[1])
    plain = compare_ratings(right[0], right[1], seed).p
    gap = estimate(held)
    shares = ", ".join(
        f"{name} {int(sum(v))} of {len(v)} right" for name, v in zip((a, b), right, strict=True)
    )
    words = f"{shares}; {b} less {a}: {_size(gap, 100, '+.1f')} points"
    return _Test(held.p, plain, gap, words, f"difference of shares over {held.over}")
