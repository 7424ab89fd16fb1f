"""The questions of the study file, each answered for every value of its key, with Holm's correction over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from limen.listening._analyse_choices import chance_of
from limen.listening._analyse_ratings import compare, p_within
from limen.listening._analyse_words import rivals
from limen.listening._cells import keys, split_by
from limen.listening._parts import Estimate, Rated, Where
from limen.listening._results import Answered
from limen.listening.statistics import compare_ratings, equivalence, holm, power_detect, power_equivalence, proportion
from limen.listening.study import Hypothesis, Study

Row = Mapping[str, Any]


def answered(study: Study, rows: Mapping[str, Sequence[Row]], rated: Sequence[Rated], seed: int) -> tuple[Answered, ...]:
    """`rows` are the trials that count, by trial type."""
    out: list[Answered] = []
    for h in study.hypotheses:
        if h.by is not None and h.by not in keys(study):
            out.append(_none(h, Where((h.by,), ("?",)), f"no item has a factor {h.by}"))
            continue
        # "do ratings differ by condition?" compares conditions: there is nothing left to split
        by = None if (h.kind, h.by) == ("different", "condition") else h.by
        for where, part in split_by(study, rows.get(h.trial, ()), by) or [(Where(), [])]:
            out.append(_one(study, h, where, part, rated, seed))
    known = [k for k, a in enumerate(out) if a.p is not None]
    for k, p in zip(known, holm([float(out[k].p or 0.0) for k in known]).p, strict=True):
        out[k] = replace(out[k], p_corrected=p, holds=p < out[k].alpha)
    return tuple(out)


def _none(h: Hypothesis, where: Where, why: str) -> Answered:
    return Answered(h.name, h.kind, h.trial, where, 0, None, None, h.alpha, None, None, why, "")


def _found(h: Hypothesis, where: Where, n: int, p: float, words: str, method: str, power: float | None = None) -> Answered:
    return Answered(h.name, h.kind, h.trial, where, n, p, None, h.alpha, None, power, words, method)


def _one(study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], rated: Sequence[Rated], seed: int) -> Answered:
    if not rows:
        return _none(h, where, "no answers to judge by")
    if h.trial == "preference":
        return _preferred(study, h, where, [row for row in rows if row["chosen"] is not None])
    if h.kind == "different":
        numbers = any(row["rating"] is not None for row in rows)
        return _ratings_differ(study, h, where, rows, rated, seed) if numbers else _shares_differ(study, h, where, rows, seed)
    judged = [row for row in rows if row["correct"] is not None]
    if not judged:
        return _none(h, where, "nothing here is right or wrong")
    return _against_chance(h, where, sum(bool(row["correct"]) for row in judged), len(judged), chance_of(study, h.trial, judged), "right")


def _preferred(study: Study, h: Hypothesis, where: Where, rows: Sequence[Row]) -> Answered:
    """The condition that stands first in the study file counts as a success; ties are left out."""
    if not rows:
        return _none(h, where, "nobody preferred anything")
    names = {rivals(study, row)[0] for row in rows}
    what = f"for {names.pop()}" if len(names) == 1 else "for the condition that stands first in the study file"
    return _against_chance(h, where, sum(row["chosen"] == rivals(study, row)[0] for row in rows), len(rows), 0.5, what)


def _against_chance(h: Hypothesis, where: Where, k: int, n: int, chance: float, what: str) -> Answered:
    found = proportion(k, n, chance)
    words = f"{k} of {n} {what}, {100 * found.share:.1f} % ({100 * found.low:.1f}–{100 * found.high:.1f})"
    if h.kind == "different":
        return _found(h, where, n, found.p_two_sided, words, "exact binomial, two-sided")
    if h.kind == "above_chance":
        power = power_detect(n, h.effect, chance, h.alpha) if h.effect > chance else None
        return _found(h, where, n, found.p_greater, words, "exact binomial, one-sided", power)
    if h.bound >= min(chance, 1 - chance):
        return _none(h, where, f"a bound of {h.bound:g} is wider than chance ({chance:.3g}) allows")
    power = power_equivalence(n, h.bound, None, chance, h.alpha)
    method = f"two one-sided exact binomials, bound {100 * h.bound:.0f} points"
    return _found(h, where, n, equivalence(k, n, h.bound, chance, h.alpha).p, words, method, power)


def _ratings_differ(study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], rated: Sequence[Rated], seed: int) -> Answered:
    """Of several pairs of conditions the smallest p, corrected by Holm, decides. Where listeners met both conditions, these are exchanged
    within listeners only; a MUSHRA test was corrected when it was summed up."""
    known = [(part, c) for part in rated if part.kind == h.trial for c in part.comparisons if c.where == where]
    compared = [c for _, c in known] or compare(study, where, rows, seed)
    if not compared:
        return _none(h, where, "only one condition was rated")
    used = [c.p if c.p_within is None else c.p_within for c in compared]
    sliders = any(not part.levels for part, _ in known)
    adjusted = used if sliders else list(holm(used).p)
    best = min(range(len(used)), key=lambda k: adjusted[k])
    c = compared[best]
    method = c.method if c.p_within is None else "permutation of ratings within listeners"
    more = f", smallest of {len(used)} pairs" if len(used) > 1 else ""
    return _found(h, where, len(rows), adjusted[best], f"{c.conditions[1]} less {c.conditions[0]}: {_size(c.difference)}", method + more)


def _size(gap: Estimate) -> str:
    between = f" ({gap.low:+.2f} to {gap.high:+.2f})" if gap.low is not None and gap.high is not None else ""
    return f"{gap.value:+.2f}{between}".replace("-", "−")


def _shares_differ(study: Study, h: Hypothesis, where: Where, rows: Sequence[Row], seed: int) -> Answered:
    by = [(inner.values[0], part) for inner, part in split_by(study, [r for r in rows if r["correct"] is not None], "condition")]
    if len(by) != 2:
        return _none(h, where, f"two conditions with right and wrong answers were expected, but {len(by)} came")
    first, second = by[0][1], by[1][1]
    within = p_within([*first, *second], [False] * len(first) + [True] * len(second), "correct", seed)
    p = within if within is not None else compare_ratings([r["correct"] for r in first], [r["correct"] for r in second], seed).p
    method = "permutation of right answers within listeners" if within is not None else "exact test of two shares"
    shares = [f"{name} {sum(bool(r['correct']) for r in part)} of {len(part)} right" for name, part in by]
    return _found(h, where, len(rows), p, ", ".join(shares), method)
