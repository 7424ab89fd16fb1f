"""Preferences: shares of each pair of conditions, and a Bradley-Terry scale."""

from markupsafe import Markup

from limen.listening.analysis.result_types import Preference
from limen.report.blocks import Figure, Table
from limen.report.formatting import fmt
from limen.report.study.charts import point
from limen.report.study.methods import INDEPENDENT
from limen.report.study.section import Context, StudySection
from limen.report.study.sentences import number_interval, p_text, percent_interval
from limen.report.study.tables import p_cell, scope, table
from limen.report.svg.bars import Points, interval_plot

METHODS = {
    **INDEPENDENT,
    "Preference": "Share of each condition among the answers without ties, over listeners and items. On the "
    "Bradley-Terry scale a tie is half a win for each; its intervals are from resampling listeners, for "
    "these items.",
}
MOST_PAIRS = 3
"""Pairs in the sentences at the top of the page: those with the smallest p."""


def preference(result: Preference, context: Context) -> StudySection:
    blocks = [*_scale(result, context.title), *_tables(result)]
    return StudySection(_sentences(result, context.title), blocks, METHODS)


def _sentences(result: Preference, title: str) -> list[str]:
    pairs = sorted(result.pairs, key=lambda p: 1.0 if p.p_two_sided is None else p.p_two_sided)[:MOST_PAIRS]
    shown = [
        f"{p.first} was preferred to {p.second} in {fmt(p.wins)} of {p.n} comparisons, "
        f"{percent_interval(p.share)}{_tested(p.p_two_sided)}"
        for p in pairs
    ]
    return [f"{title}: {'; '.join(shown)}."] if shown else []


def _tested(p: float | None) -> str:
    return " (no test: one listener does not generalise to others)" if p is None else f", {p_text(p)}"


def _scale(result: Preference, title: str) -> list[Figure]:
    known = [(name, e) for name, e in result.worth if e.value is not None]
    if not known:
        return []
    ends = [abs(v) for _, e in known for v in (e.value, e.low, e.high) if v is not None]
    reach = max(ends, default=1.0) * 1.05 or 1.0
    chart = interval_plot(
        [name for name, _ in known],
        [Points("worth", [point(e) for _, e in known])],
        title=f"{title}: Bradley-Terry worth",
        x_label="log worth (0: the mean of all)",
        span=(-reach, reach),
        rule=(0.0, "mean"),
        text=lambda v: fmt(v, "1f"),
    )
    caption = (
        "Bradley-Terry: the odds that one condition is preferred to another are the ratio of their worths. "
        "95 % intervals from resampling listeners, for these items."
    )
    return [Figure(f"{title}: scale", caption, [("", chart)], Markup(""))]


def _tables(result: Preference) -> list[Table]:
    rows = [
        [
            f"{p.first} against {p.second}",
            p.n,
            fmt(p.wins),
            p.ties,
            percent_interval(p.share),
            p_cell(p.p_two_sided),
            p_cell(p.p_independent),
        ]
        for p in result.pairs
    ]
    headings = [
        ("Compared", ""),
        ("n", ""),
        ("For the first", "a tie counts half"),
        ("Ties", ""),
        ("Share", "of the answers without ties"),
        ("p two-sided", "see the caption for what it generalises over"),
        ("p if independent", "exact binomial test, assuming independent answers"),
    ]
    estimates = [(f"{p.first} against {p.second}", p.share) for p in result.pairs]
    caption = f"Shares are those of the answers without ties. {scope(estimates)}"
    out = [table("Pairs", headings, rows, caption)]
    if result.worth:
        worth = [[name, number_interval(e, "2f")] for name, e in result.worth]
        caption = (
            "0 is the mean of all. Intervals are from resampling listeners: they generalise over listeners, "
            "but only for these items."
        )
        headings = [("Condition", ""), ("Log worth", "95 % interval")]
        out.append(table("Bradley-Terry scale", headings, worth, caption))
    return out
