"""Thresholds: psychometric curves, and the threshold of each listener and of the population."""

from markupsafe import Markup

from limen.listening.analysis.result_types import Axis, Threshold, Thresholds
from limen.perception.psychometric import probability
from limen.report.blocks import Figure, Table
from limen.report.formatting import fmt, many
from limen.report.study.charts import point
from limen.report.study.section import Context, StudySection
from limen.report.study.sentences import number_interval, percent_interval
from limen.report.study.tables import scope, table
from limen.report.svg.bars import Points, interval_plot
from limen.report.svg.lines import Series, line_chart

CURVES = 40
"""Number of listeners whose own curves are drawn."""
MANY = 12
"""Number of thresholds beyond which their chart is folded."""
METHODS = {
    "Thresholds": "A cumulative Gaussian with false alarms and lapses, fitted to each listener and axis on a "
    "grid (flat priors). The threshold of the study is the mean of the population; every listener "
    "contributes the complete likelihood. Credible intervals, for these items. The band of a curve is that "
    "of the threshold. False alarms: a share over listeners and items."
}


def thresholds(result: Thresholds, context: Context) -> StudySection:
    title = context.title
    blocks = [*_curves(result, title), *_listeners(result, title), _table(result)]
    return StudySection(_sentences(result, title), blocks, METHODS)


def _sentences(result: Thresholds, title: str) -> list[str]:
    return [
        f"{title}, {a.axis}: a difference is noticed half the time at a strength of "
        f"{number_interval(a.threshold)} of 100 ({many(a.listeners, 'listener')}, {many(a.trials, 'trial')}; "
        f"standard deviation between listeners {number_interval(a.spread)}; 95 % credible intervals over "
        "listeners, for these items)."
        for a in result.axes
    ]


def _curves(result: Thresholds, title: str) -> list[Figure]:
    """One panel per axis: the curve of the population with its band, and those of listeners."""
    panels = [(axis.axis, _curve(result, axis, title)) for axis in result.axes]
    caption = (
        "Share of “different” against strength. Blue: the mean listener, with a 95 % band; grey: the most "
        "probable curve of each listener. The dotted line is the threshold of the study."
    )
    return [Figure(f"{title}: psychometric curves", caption, panels, Markup(""))] if panels else []


def _curve(result: Thresholds, axis: Axis, title: str) -> Markup:
    at = [float(v) for v in range(0, 101, 2)]
    own = [
        Series(f"listener {t.listener}", at, [float(v) for v in probability(at, **_parameters(t))], slot=-1)
        for t in [t for t in result.listeners if t.axis == axis.axis][:CURVES]
    ]
    strength, middle, low, high = ([c[k] for c in axis.curve] for k in range(4))
    threshold = axis.threshold.value
    return line_chart(
        [*own, Series("all listeners", strength, middle, low, high)],
        title=f"{title}: {axis.axis}",
        x_label="strength",
        y_label="“different”, %",
        log=False,
        x_rule=None if threshold is None else (threshold, f"{threshold:.0f}"),
    )


def _parameters(threshold: Threshold) -> dict[str, float]:
    return {name: threshold.best[name] for name in ("threshold", "slope", "lapse", "gamma")}


def _listeners(result: Thresholds, title: str) -> list[Figure]:
    """The threshold of every listener with its interval, by axis."""
    panels = []
    for axis in result.axes:
        selected = sorted(
            (t for t in result.listeners if t.axis == axis.axis), key=lambda t: t.threshold.value or 0.0
        )
        rows = [f"listener {t.listener}" for t in selected] + ["all"]
        series = [Points("listener", [*(point(t.threshold) for t in selected), None])]
        if axis.threshold.value is not None:
            series.append(Points("all listeners", [*(None for _ in selected), point(axis.threshold)], 1))
        chart = interval_plot(
            rows,
            series,
            title=f"{title}: thresholds, {axis.axis}",
            x_label="threshold (strength noticed half the time)",
            span=(0.0, 100.0),
            text=lambda v: fmt(v, "0f"),
        )
        panels.append((axis.axis, chart))
    caption = (
        "Threshold of each listener with its 95 % credible interval, and the mean of the population of "
        "listeners."
    )
    folded = len(result.listeners) > MANY
    if not panels:
        return []
    return [Figure(f"{title}: thresholds of listeners", caption, panels, Markup(""), folded=folded)]


def _table(result: Thresholds) -> Table:
    headings = [
        ("Axis", ""),
        ("Listeners", ""),
        ("Trials", ""),
        ("Threshold", "strength noticed half the time; 95 % credible interval"),
        ("Spread", "standard deviation between listeners"),
        ("False alarms", "“different” for equal clips"),
    ]
    rows = [
        [
            a.axis,
            a.listeners,
            a.trials,
            number_interval(a.threshold),
            number_interval(a.spread),
            percent_interval(a.false_alarms),
        ]
        for a in result.axes
    ]
    estimates = [(a.axis, a.false_alarms) for a in result.axes]
    caption = (
        "Strengths are from 0 (unchanged) to 100. Intervals of thresholds and spreads are credible "
        "intervals: they generalise over listeners, but only for these items. "
        f"{scope(estimates, 'Intervals of false alarms')}"
    )
    return table("Thresholds", headings, rows, caption)
