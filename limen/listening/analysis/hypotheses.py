"""Tests of the hypotheses of the study file, for each value of their key, with Holm's correction over all of
them.

Every p, verdict and interval generalises over listeners and items (`limen.listening.statistics.samples`); the
exact test that assumes independent answers is reported too.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from limen.listening.analyses.choices import chance_of, hearers_of
from limen.listening.analyses.preference import compared
from limen.listening.analysis.breakdowns import estimate, key_of, keys, split_by
from limen.listening.analysis.rating_cells import compare, contrast
from limen.listening.analysis.result_types import Rated, Sliders, TrialResult
from limen.listening.analysis.results import HypothesisResult
from limen.listening.statistics.hearers import Hearers
from limen.listening.statistics.power import power_detect, power_equivalence
from limen.listening.statistics.proportions import equivalence, holm, proportion
from limen.listening.statistics.ratings import compare_ratings
from limen.listening.statistics.samples import sampled_share
from limen.listening.study import Hypothesis, Study
from limen.trials.base.findings import Estimate, Row, Where
from limen.trials.base.trial import trial_type

MOST_ALIKE = 0.9
"""Largest correlation of two answers of one listener that power is computed with."""
FEWEST = 2
"""Number of listeners needed to generalise over listeners."""


@dataclass(frozen=True)
class _Test:
    """Result of a test, before correction."""

    p: float | None
    p_independent: float
    interval: Estimate
    words: str
    method: str
    power: Callable[[float], float] | None = None
    """Power at a level; the corrected level is known once all tests are."""
    hearers: Hearers | None = None


def answered(
    study: Study, rows: Mapping[str, Sequence[Row]], results: Sequence[TrialResult], seed: int
) -> tuple[HypothesisResult, ...]:
    """`rows` are the analysed trials, by trial type."""
    rated = [result for result in results if isinstance(result, Rated)]
    out: list[HypothesisResult] = []
    powers: dict[int, Callable[[float], float]] = {}
    for h in study.hypotheses:
        if h.by is not None and h.by not in keys(study):
            out.append(_none(h, Where((h.by,), ("?",)), f"no item has the factor {h.by}"))
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
    """A string gives the reason why there is no test."""
    if not rows:
        return "no answers"
    if len({row["listener"] for row in rows}) < FEWEST:
        return "answers of one listener do not generalise to others"
    if trial_type(h.trial).two_sided:
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
        return "no answer is right or wrong"
    return _against_chance(
        h, judged, [bool(row["correct"]) for row in judged], chance_of(study, h.trial, judged), "right"
    )


def _preferred(study: Study, h: Hypothesis, rows: Sequence[Row]) -> _Test | str:
    """The condition that comes first in the study file counts as a success; ties are left out."""
    if not rows:
        return "no answer prefers a condition"
    names = {compared(study, row)[0] for row in rows}
    what = f"for {names.pop()}" if len(names) == 1 else "for the condition that comes first in the study file"
    return _against_chance(h, rows, [row["chosen"] == compared(study, row)[0] for row in rows], 0.5, what)


def _against_chance(
    h: Hypothesis, rows: Sequence[Row], right: Sequence[bool], chance: float, what: str
) -> _Test | str:
    if h.kind == "equivalent" and h.bound >= min(chance, 1 - chance):
        return f"a bound of {h.bound:g} is wider than chance ({chance:.3g}) allows"
    k, n = sum(right), len(right)
    found = sampled_share(right, [r["listener"] for r in rows], [r["item"] for r in rows], chance, h.bound)
    if found.low is None or found.high is None or found.design_effect is None or found.df is None:
        return "answers of one listener do not generalise to others"
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
    two_sided = trial_type(h.trial).two_sided
    sides, answers = 2 if two_sided else 1, list(Counter(r["listener"] for r in rows).values())
    hearing = hearers_of(rows, right, chance, sides)
    # attributing all of the design effect to listeners
    icc = min(max((effect - 1) * len(answers) / max(n - len(answers), 1), 0.0), MOST_ALIKE)
    power = lambda alpha: power_equivalence(answers, h.bound, chance, chance, alpha, effect, df, icc, sides)
    exact, method = (
        equivalence(k, n, h.bound, chance, h.alpha).p,
        f"two one-sided tests {over}, bound {100 * h.bound:.0f} points",
    )
    may = "have a clear preference" if two_sided else "hear the difference"
    words += f"; up to {100 * hearing.high:.0f} % of listeners may {may}"
    return _Test(found.p_equivalent, exact, interval, words, method, power, hearing)


def _ratings_differ(
    study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], rated: Sequence[Rated], seed: int
) -> _Test | str:
    """With several pairs of conditions the smallest p decides, corrected by Holm. Comparisons of sliders are
    already corrected."""
    known = [
        (result, c)
        for result in rated
        if result.trial == h.trial
        for c in result.comparisons
        if c.where == where
    ]
    pairs = [c for c in [c for _, c in known] or compare(study, where, rows, seed) if c.p is not None]
    if not pairs:
        return "only one condition was rated"
    sliders = any(isinstance(result, Sliders) for result, _ in known)
    used, plain = [float(c.p or 0.0) for c in pairs], [c.p_independent for c in pairs]
    adjusted, exact = (used, plain) if sliders else (list(holm(used).p), list(holm(plain).p))
    best = min(range(len(used)), key=lambda k: adjusted[k])
    c = pairs[best]
    more = f", smallest of {len(used)} pairs" if len(used) > 1 else ""
    words = f"{c.conditions[1]} minus {c.conditions[0]}: {_difference(c.difference)}"
    return _Test(adjusted[best], min(exact), c.difference, words, f"difference of means over {c.over}{more}")


def _difference(gap: Estimate, scale: float = 1.0, how: str = "+.2f") -> str:
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
        return f"expected two conditions with right and wrong answers, got {len(by)}"
    (a, first), (b, second) = by
    right = [[float(bool(r["correct"])) for r in part] for part in (first, second)]
    sampled = contrast(first, second, right[0] + right[1])
    plain = compare_ratings(right[0], right[1], seed).p
    gap = estimate(sampled)
    shares = ", ".join(
        f"{name} {int(sum(v))} of {len(v)} right" for name, v in zip((a, b), right, strict=True)
    )
    words = f"{shares}; {b} minus {a}: {_difference(gap, 100, '+.1f')} points"
    return _Test(sampled.p, plain, gap, words, f"difference of shares over {sampled.over}")
