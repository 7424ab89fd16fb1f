"""Sentences and numbers of the results page of a listening study."""

from collections.abc import Sequence

from limen.listening.analysis.results import HypothesisResult, Results
from limen.report.formatting import DASH, THIN, fmt, many
from limen.trials.base.findings import Estimate


def p_text(p: float | None) -> str:
    """p = 0.205, p < 0.001."""
    if p is None:
        return DASH
    text = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"
    return text.replace(" ", THIN)


def ends(e: Estimate, how: str = "1f", scale: float = 1.0) -> str:
    """43.4–67.3, without a line break inside; "to" if a minus sign would follow the dash."""
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
    """A warning about simulated listeners; empty if there are none."""
    if not results.simulated:
        return ""
    some = "" if results.simulated == results.listeners else f" of {many(results.listeners, 'listener')}"
    return (
        f"{many(results.simulated, 'listener')}{some} {'is' if results.simulated == 1 else 'are'} simulated "
        "(“limen listen simulate”). This page shows how the study would be analysed, and nothing about what "
        "people hear."
    )


def participation(results: Results) -> str:
    """Number of listeners, of those who finished or were excluded, and of analysed answers."""
    out = results.exclusions
    excluded = len(out.excluded)
    left_out = f"{many(excluded, 'was', 'were')} excluded by the rules of the study file" if excluded else ""
    people = results.listeners - results.simulated
    took = f"{many(results.listeners, 'person', 'people')} took part"
    if results.simulated:
        more = f" and {many(people, 'person', 'people')}" if people else ""
        took = f"{many(results.simulated, 'simulated listener')}{more} took part"
    return (
        f"{took} and {fmt(results.finished, 'n')} reached the end; {left_out or 'none were excluded'}, so "
        f"{many(results.answers, 'answer')} of {many(out.kept, 'listener')} are analysed."
    )


def agreement(e: Estimate) -> str:
    return (
        f"Agreement between listeners (Krippendorff’s alpha): {number_interval(e, '2f')}; 1 is perfect, 0 is "
        "chance. The 95 % interval is from resampling items: it generalises over items, but only for these "
        "listeners."
    )


def hypotheses(answers: Sequence[HypothesisResult]) -> str:
    if not answers:
        return ""
    verdicts = [h.verdict for h in answers]
    yes, partly, empty = (verdicts.count(v) for v in ("yes", "on average only", "no answers"))
    corrected = " after correction for multiple tests" if len(answers) > 1 else ""
    mean = f", {fmt(partly, 'n')} more only on average over listeners" if partly else ""
    missing = f"; {fmt(empty, 'n')} had no answers" if empty else ""
    return (
        f"{fmt(yes, 'n')} of {many(len(answers), 'hypothesis', 'hypotheses')} fixed before the first answer "
        f"{'is' if yes == 1 else 'are'} answered with yes{corrected}{mean}{missing}."
    )


def cite(results: Results) -> str:
    return (
        f"{results.title} ({results.study}): listening study, {many(results.exclusions.kept, 'listener')}, "
        f"{many(results.answers, 'answer')}, "
        f"{' to '.join(dict.fromkeys((results.first[:10], results.last[:10])))}. Study file "
        f"sha256{THIN}{results.fingerprint}. Analysed with Limen, seed {results.seed}."
    )
