"""Right answers: shares against chance, sensitivity, confidence, and confusion matrices."""

from limen.listening.analysis.result_types import Choices, Share
from limen.listening.analysis.results import Results
from limen.listening.statistics.hearers import FEW, Hearers
from limen.report.blocks import Prose
from limen.report.formatting import THIN, fmt, listed, many
from limen.report.study.methods import AGREEMENT, INDEPENDENT
from limen.report.study.section import Context, StudySection
from limen.report.study.sections.choices import figures, tables
from limen.report.study.sections.ratings import agreement_notes
from limen.report.study.sentences import p_text, percent_interval

METHODS = {
    "Against chance": "One-sided (better than guessing) and two-sided, over listeners and items.",
    **INDEPENDENT,
    "Equivalence": "Two one-sided tests over listeners and items: whether the share is within the bound of "
    "chance. Only this can show that a difference is not heard; a large p against chance cannot. The tests "
    "are about the mean over listeners, so a difference is called inaudible only if few listeners may hear "
    "it.",
    "Listeners who may hear it": "A listener who hears the difference detects it in 80 % of trials and "
    "guesses in the others. The number of listeners who did that well gives a 95 % upper bound of their "
    "share among all listeners (Clopper-Pearson), if no listener does worse than guess.",
    "d′ and bias": "Signal detection theory, differencing model (every trial uses another clip); shares with "
    "Hautus’s log-linear correction. The interval is that of the share of right answers, over listeners and "
    "items, on the scale of d′. Below chance d′ is negative, so its mean is 0 if nothing is heard; truncated "
    "d′ is 0 there, and too high on average. Bias c is 0 if neither answer is preferred.",
}
MIXED = {
    "Mixed model": "Logistic regression of right answers with random intercepts of listeners and items; it "
    "is descriptive, and no verdict is based on it."
}
MOST_CELLS = 6
"""Cells in the sentences at the top of the page."""


def choices(result: Choices, context: Context) -> StudySection:
    key = main_key(context.results, result)
    overall, title = result.shares[0], context.title
    counts = (
        f"{many(overall.n, 'answer')} of {many(overall.listeners, 'listener')} to "
        f"{many(overall.items, 'item')}."
    )
    blocks = [
        Prose(counts),
        *figures.shares(result, title),
        *figures.confidence(result, title, key),
        *figures.confusions(result, title),
        *tables.tables(result),
        *agreement_notes(result.agreement),
    ]
    return StudySection(
        _sentences(result, title, key), blocks, METHODS | AGREEMENT | (MIXED if result.mixed else {})
    )


def main_key(results: Results, result: Choices) -> tuple[str, ...]:
    """Key that the results are mainly read by: that of the hypotheses, else the first factor, else condition
    or group."""
    single = list(dict.fromkeys(s.where.keys for s in result.shares if len(s.where.keys) == 1))
    tested = [h.where.keys for h in results.hypotheses if h.trial == result.trial and h.where.keys]
    factors = [k for k in single if k[0] not in ("group", "condition")]
    return next((k for k in [*tested, *factors, ("condition",), ("group",)] if k in single), ())


def _sentences(result: Choices, title: str, key: tuple[str, ...]) -> list[str]:
    overall, *_ = result.shares
    out = [
        f"{title}: {fmt(overall.right, 'n')} of {many(overall.n, 'answer')} were right, "
        f"{percent_interval(overall.share)}; guessing gives {fmt(overall.chance, '%')}."
    ]
    split = [s for s in result.shares if s.where.keys == key and key]
    if split:
        shown = listed([f"{s.where} {percent_interval(s.share)}" for s in split[:MOST_CELLS]])
        out.append(f"By {key[0]}: {shown}{', ...' if len(split) > MOST_CELLS else ''}.")
    return out + [_near_chance(s) for s in (split or [overall]) if (s.p_greater or 0.0) >= 0.05]


def _near_chance(s: Share) -> str:
    """Not significantly better than chance is not the same as inaudible."""
    about = f"Answers for {s.where}" if s.where.keys else "They"
    tested = (
        f"{about} were not significantly better than guessing (one-sided {p_text(s.p_greater)}, "
        f"n{THIN}={THIN}{s.n})"
    )
    points = f"{100 * s.bound:.0f} points"
    if s.p_equivalent is None:
        return f"{tested}."
    if s.p_equivalent < 0.05:
        equal = f"{tested}, and on average within {points} of it (equivalence {p_text(s.p_equivalent)})"
        return f"{equal}; {may_hear(s.hearers)}."
    top = (
        f"the interval still includes {fmt(s.share.high, '%')}"
        if s.share.high is not None
        else "the interval is wide"
    )
    return (
        f"{tested}. This does not show that nothing is heard: {top} (equivalence within {points}: "
        f"{p_text(s.p_equivalent)})."
    )


def may_hear(h: Hearers) -> str:
    """Bound of the share of listeners who may hear a difference that is not heard on average."""
    top = (
        f"up to {fmt(h.high, '%')} of listeners may hear the difference (right in {fmt(h.at_least, '%')} of "
        "their answers or more; 95 % bound"
    )
    verdict = ", too many to call it inaudible" if h.high > FEW else ""
    return f"{top}, {h.passed} of {h.listeners} did that well){verdict}"
