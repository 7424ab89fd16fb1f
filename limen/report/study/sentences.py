"""What a listening study found, in sentences that carry their numbers."""

from collections.abc import Sequence

from limen.listening.analysis.result_types import (
    Choices,
    Comparison,
    Estimate,
    Part,
    Preference,
    Rated,
    Share,
    Thresholds,
    Transcriptions,
)
from limen.listening.analysis.results import HypothesisResult, Results
from limen.listening.statistics.hearers import FEW, Hearers
from limen.report.formatting import DASH, THIN, fmt, listed, many

NAMES = {
    "abx": "ABX",
    "naturalness": "Naturalness",
    "identification": "Identification",
    "same_different": "Same or different",
    "preference": "Preference",
    "mushra": "MUSHRA",
    "transcription": "Transcription",
}


def name_of(kind: str) -> str:
    return NAMES.get(kind, kind.replace("_", " ").capitalize())


def p_text(p: float | None) -> str:
    """p = 0.205, p < 0.001."""
    if p is None:
        return DASH
    text = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"
    return text.replace(" ", THIN)


def ends(e: Estimate, how: str = "1f", scale: float = 1.0) -> str:
    """43.4–67.3, never broken across lines; "to" where a minus sign would stand beside the dash."""
    if e.low is None or e.high is None:
        return ""
    join = f"\u2060{DASH}\u2060" if e.low >= 0 else " to "
    return fmt(scale * e.low + 0.0, how) + join + fmt(scale * e.high + 0.0, how)


def percent_interval(e: Estimate) -> str:
    """55.6 % (43.4–67.3)."""
    if e.value is None:
        return DASH
    return fmt(e.value, "%") + (f" ({ends(e, '1f', 100)})" if e.low is not None else "")


def number_interval(e: Estimate, how: str = "1f") -> str:
    if e.value is None:
        return DASH
    return fmt(e.value, how) + (f" ({ends(e, how)})" if e.low is not None else "")


def simulated(results: Results) -> str:
    """A warning, if there is something to warn of."""
    if not results.simulated:
        return ""
    some = "" if results.simulated == results.listeners else f" of {many(results.listeners, 'listener')}"
    return (
        f"{many(results.simulated, 'listener')}{some} were made up by “limen listen simulate”. What stands "
        "here says how the study would be analysed, and nothing about what people hear."
    )


def listed_people(results: Results) -> str:
    people = results.listeners - results.simulated
    return f" and {many(people, 'person', 'people')}" if people else ""


def who(results: Results) -> str:
    out = results.exclusions
    left = len(out.excluded)
    counted = (
        "nobody was left out"
        if not left
        else f"{many(left, 'was', 'were')} left out by the rules of the study file"
    )
    listened = f"{many(results.listeners, 'person', 'people')} listened"
    if results.simulated:
        listened = f"{many(results.simulated, 'simulated listener')}{listed_people(results)} answered"
    return (
        f"{listened} and {fmt(results.finished, 'n')} reached the end; {counted}, so "
        f"{many(results.answers, 'answer')} of {many(out.kept, 'listener')} count."
    )


def found(results: Results, part: Part) -> list[str]:
    """What a trial type found, in a few sentences."""
    if isinstance(part, Choices):
        return choices(part, main_key(results, part))
    if isinstance(part, Rated):
        return rated(part)
    if isinstance(part, Preference):
        return preference(part)
    return transcriptions(part) if isinstance(part, Transcriptions) else thresholds(part)


def main_key(results: Results, part: Choices) -> tuple[str, ...]:
    """What a trial type's results are mainly read by: the key its hypotheses ask for, else the first factor,
    else condition or group."""
    single = list(dict.fromkeys(s.where.keys for s in part.shares if len(s.where.keys) == 1))
    asked = [h.where.keys for h in results.hypotheses if h.trial == part.kind and h.where.keys]
    factors = [k for k in single if k[0] not in ("group", "condition")]
    return next((k for k in [*asked, *factors, ("condition",), ("group",)] if k in single), ())


def choices(part: Choices, key: tuple[str, ...]) -> list[str]:
    whole, *_ = part.shares
    out = [
        f"{name_of(part.kind)}: {fmt(whole.right, 'n')} of {many(whole.n, 'answer')} were right, "
        f"{percent_interval(whole.share)}; guessing gives {fmt(whole.chance, '%')}."
    ]
    split = [s for s in part.shares if s.where.keys == key and key]
    if split:
        shown = listed([f"{s.where} {percent_interval(s.share)}" for s in split[:6]])
        out.append(f"By {key[0]}: {shown}{', ...' if len(split) > 6 else ''}.")
    out += [_chance(s) for s in (split or [whole]) if s.p_greater is not None and s.p_greater >= 0.05]
    return out


def _chance(s: Share) -> str:
    """Not better than chance is not the same as inaudible."""
    about = f"For {s.where} they" if s.where.keys else "They"
    said = (
        f"{about} were not reliably better than guessing (one-sided {p_text(s.p_greater)}, "
        f"n{THIN}={THIN}{s.n})"
    )
    if s.p_equivalent is None:
        return f"{said}."
    if s.p_equivalent < 0.05:
        equal = (
            f"{said}, and on average lie within {100 * s.bound:.0f} points of it (equivalence "
            f"{p_text(s.p_equivalent)})"
        )
        return f"{equal}; {may_hear(s.hearers)}."
    top = (
        f"the interval still reaches {fmt(s.share.high, '%')}"
        if s.share.high is not None
        else "the interval is wide"
    )
    return (
        f"{said}; that is no proof that nothing is heard, {top} (equivalence within {100 * s.bound:.0f} "
        f"points: {p_text(s.p_equivalent)})."
    )


def may_hear(h: Hearers) -> str:
    """An average says nothing about the few who hear it."""
    top = (
        f"up to {fmt(h.high, '%')} of listeners may hear it (right in {fmt(h.at_least, '%')} of their "
        "answers or more; 95 % bound"
    )
    return f"{top}, {h.passed} of {h.listeners} did that well)" + (
        ", too many to call it inaudible" if h.high > FEW else ""
    )


def rated(part: Rated) -> list[str]:
    split = [r for r in part.ratings if r.where.keys == ("condition",)] or [
        r for r in part.ratings if not r.where.keys
    ]
    if part.levels:
        scale = f"{fmt(part.good_from)} or more"
        shown = listed([f"{percent_interval(r.good)} of {r.where} (n{THIN}={THIN}{r.n})" for r in split])
        out = [f"{name_of(part.kind)}: {scale} of {fmt(part.levels[-1])} was given to {shown}."]
    else:
        shown = listed(
            [
                f"{r.where} {number_interval(r.mean)}"
                for r in sorted(split, key=lambda r: -(r.mean.value or 0))
            ]
        )
        out = [f"{name_of(part.kind)}, mean ratings: {shown}."]
    whole = [c for c in part.comparisons if not c.where.keys]
    if part.levels or not whole:
        return out + [comparison(c) for c in whole]
    against = listed([f"{c.conditions[1]} {p_text(c.p)}" for c in whole])
    return [
        *out,
        f"Compared with {whole[0].conditions[0]} (over {whole[0].over}, Holm-corrected): {against}.",
    ]


def comparison(c: Comparison) -> str:
    if c.p is None:
        return f"Whether the ratings of {listed(c.conditions)} differ, one listener cannot tell."
    verdict = "differ" if c.p < 0.05 else "do not reliably differ"
    gap = f"{c.conditions[1]} less {c.conditions[0]} {number_interval(c.difference, '2f')}"
    return f"The mean ratings of {listed(c.conditions)} {verdict}: {gap}, {p_text(c.p)} over {c.over}."


def preference(part: Preference) -> list[str]:
    shown = [
        f"{p.first} was preferred to {p.second} in {fmt(p.wins)} of {p.n} comparisons, "
        f"{percent_interval(p.share)}{_tested(p.p_two_sided)}"
        for p in sorted(part.pairs, key=lambda p: 1.0 if p.p_two_sided is None else p.p_two_sided)[:3]
    ]
    return [f"{name_of(part.kind)}: {'; '.join(shown)}."] if shown else []


def _tested(p: float | None) -> str:
    return " (without a test: one listener says nothing about others)" if p is None else f", {p_text(p)}"


def thresholds(part: Thresholds) -> list[str]:
    return [
        f"{name_of(part.kind)}, {a.axis}: a difference is heard half the time at a strength of "
        f"{number_interval(a.threshold)} of 100 ({many(a.listeners, 'listener')}, {many(a.trials, 'trial')}; "
        f"listeners spread by {number_interval(a.spread)}; 95 % credible intervals over listeners, of these "
        "items)."
        for a in part.axes
    ]


def transcriptions(part: Transcriptions) -> list[str]:
    whole, *_ = part.cells
    split = [c for c in part.cells if c.where.keys == ("condition",)]
    shown = listed([f"{c.where} {percent_interval(c.wer)}" for c in split])
    return [
        f"{name_of(part.kind)}: {percent_interval(whole.wer)} of the words were typed wrongly "
        f"({many(whole.n, 'answer')})" + (f"; by condition: {shown}." if shown else ".")
    ]


def agreement(e: Estimate) -> str:
    return (
        f"Agreement between listeners (Krippendorff’s alpha): {number_interval(e, '2f')}; 1 is perfect, 0 is "
        "chance. The 95 % interval comes from drawing items: it holds for other items, but only for these "
        "listeners."
    )


def hypotheses(answers: Sequence[HypothesisResult]) -> str:
    if not answers:
        return ""
    verdicts = [h.verdict for h in answers]
    held, partly, lost = (verdicts.count(v) for v in ("yes", "on average only", "no answers"))
    several = " after correction for asking several" if len(answers) > 1 else ""
    empty = f"; {fmt(lost, 'n')} had no answers to judge by" if lost else ""
    mean = f", {fmt(partly, 'n')} more only on average over listeners" if partly else ""
    asked = many(len(answers), "question")
    return (
        f"Of {asked} fixed before the first answer, {fmt(held, 'n')} can be answered with "
        f"yes{several}{mean}{empty}."
    )


def cite(results: Results) -> str:
    return (
        f"{results.title} ({results.study}): listening study, {many(results.exclusions.kept, 'listener')}, "
        f"{many(results.answers, 'answer')}, "
        f"{' to '.join(dict.fromkeys((results.first[:10], results.last[:10])))}. Study file "
        f"sha256{THIN}{results.fingerprint}. Analysed with Limen, seed {results.seed}."
    )
