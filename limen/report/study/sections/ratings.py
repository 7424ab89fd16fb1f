"""Ratings on a scale of a few steps: distributions, means, and comparisons of conditions."""

from collections.abc import Sequence

from markupsafe import Markup

from limen.listening.analysis.result_types import Comparison, Rated
from limen.report.blocks import Figure, Prose, Table
from limen.report.formatting import DASH, THIN, fmt, listed
from limen.report.study.charts import keys_of
from limen.report.study.methods import AGREEMENT, INDEPENDENT
from limen.report.study.section import Context, StudySection
from limen.report.study.sentences import agreement, number_interval, p_text, percent_interval
from limen.report.study.tables import p_cell, scope, table, where_cells
from limen.report.svg.bars import stacked_bars, tones
from limen.trials.base.findings import Estimate

METHODS = {
    **INDEPENDENT,
    "Ratings": "Means and their differences over listeners and items, with Student’s t; if all listeners "
    "have the same difference, a sign test over listeners.",
    **AGREEMENT,
}


def ratings(result: Rated, context: Context) -> StudySection:
    blocks = [
        _distributions(result, context.title),
        *rating_tables(result),
        *agreement_notes(result.agreement),
    ]
    return StudySection(_sentences(result, context.title), blocks, METHODS)


def agreement_notes(e: Estimate) -> list[Prose]:
    return [] if e.value is None else [Prose(agreement(e))]


def _sentences(result: Rated, title: str) -> list[str]:
    cells = [r for r in result.ratings if r.where.keys == ("condition",)]
    cells = cells or [r for r in result.ratings if not r.where.keys]
    shown = listed([f"{r.where} {percent_interval(r.good)} (n{THIN}={THIN}{r.n})" for r in cells])
    scale = f"{fmt(result.good_from)} or more of {fmt(result.levels[-1])}"
    compared = [_comparison(c) for c in result.comparisons if not c.where.keys]
    return [f"{title}: share of ratings of {scale}: {shown}.", *compared]


def _comparison(c: Comparison) -> str:
    if c.p is None:
        compared = listed(c.conditions)
        return f"There is no test of the ratings of {compared}: one listener does not generalise to others."
    verdict = "differ significantly" if c.p < 0.05 else "do not differ significantly"
    gap = f"{c.conditions[1]} minus {c.conditions[0]} {number_interval(c.difference, '2f')}"
    return f"The mean ratings of {listed(c.conditions)} {verdict}: {gap}, {p_text(c.p)} over {c.over}."


def _distributions(result: Rated, title: str) -> Figure:
    levels, panels = [fmt(v) for v in result.levels], []
    for keys in keys_of(result.ratings) or [()]:
        shares = [(str(r.where), [n / r.n for n in r.counts]) for r in result.ratings if r.where.keys == keys]
        words = f"by {' and '.join(keys)}" if keys else "all"
        chart = stacked_bars(shares, levels, title=f"{title} {words}", x_label="ratings, %", width=520)
        panels.append((words, chart))
    caption = "Share of each rating, lowest first, in %."
    legend: Markup = tones(levels)
    return Figure(f"{title}: ratings", caption, panels, legend)


def rating_tables(result: Rated) -> list[Table]:
    steps = [(fmt(level), f"ratings of {fmt(level)}") for level in result.levels]
    headings = [("By", ""), ("Value", ""), ("n", ""), *steps, ("Mean", "95 % interval in brackets")]
    headings += [] if steps else [("Median", ""), ("Quartiles", "")]
    good, bad = f"≥ {fmt(result.good_from)}", f"≤ {fmt(result.bad_to)}"
    headings += [(good, "95 % interval in brackets"), (bad, "")]
    rows = [
        [
            *where_cells(r.where),
            fmt(r.n, "n"),
            *r.counts,
            number_interval(r.mean, "2f" if steps else "1f"),
            *([] if steps else [fmt(r.median), f"{fmt(r.quartiles[0])}{DASH}{fmt(r.quartiles[1])}"]),
            percent_interval(r.good),
            fmt(r.bad_n / r.n, "%"),
        ]
        for r in result.ratings
    ]
    caption = scope([(str(r.where), r.mean) for r in result.ratings], "Intervals")
    out = [table("Ratings", headings, rows, caption, names=2)]
    return [*out, _comparisons(result)] if result.comparisons else out


def _comparisons(result: Rated) -> Table:
    """Sliders are also compared over listeners alone, steps of a scale as distributions."""
    rows = [
        [
            str(c.where),
            f"{c.conditions[1]} against {c.conditions[0]}",
            number_interval(c.difference, "2f"),
            p_cell(c.p),
            c.over,
            p_cell(c.p_independent),
            c.method + (f", error {c.error:.2g}" if c.error else ""),
        ]
        for c in result.comparisons
    ]
    headings = [
        ("Answers", ""),
        ("Compared", ""),
        ("Difference of means", "95 % interval in brackets"),
        ("p", "that the means are equal"),
        ("Generalises over", ""),
        ("p if answers were independent" if result.levels else "p for these items", ""),
        ("Test of that p", ""),
    ]
    return table("Comparison of conditions", headings, rows, _comparisons_caption(result), names=2)


def _comparisons_caption(result: Rated) -> str:
    plain = (
        "The last two columns are a test of equal distributions, assuming independent answers."
        if result.levels
        else "It is Holm-corrected over conditions. The last two columns are a test for these items only."
    )
    estimates = [(_name(c), c.difference) for c in result.comparisons]
    return f"p is for the hypothesis that the means are equal. {scope(estimates)} {plain}"


def _name(c: Comparison) -> str:
    return f"{c.where}, {c.conditions[1]} against {c.conditions[0]}"


def best_first(result: Rated, keys: Sequence[str]) -> list[tuple[str, Estimate]]:
    """Names and means of the cells with these keys, the highest mean first."""
    cells = [r for r in result.ratings if r.where.keys == tuple(keys)]
    return [(str(r.where), r.mean) for r in sorted(cells, key=lambda r: -(r.mean.value or 0.0))]
