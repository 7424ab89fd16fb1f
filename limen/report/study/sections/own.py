"""Results of an analysis that a trial type brings itself: its sentences, tables and charts."""

from typing import Any

from markupsafe import Markup

from limen.listening.analysis.result_types import Own
from limen.report.blocks import Figure, Table
from limen.report.formatting import fmt
from limen.report.study.charts import point
from limen.report.study.section import Context, StudySection
from limen.report.study.sentences import number_interval, percent_interval
from limen.report.study.tables import scope, table
from limen.report.svg.bars import Points, interval_plot
from limen.trials.base.findings import Estimate, FindingsChart, FindingsTable


def own(result: Own, context: Context) -> StudySection:
    findings = result.findings
    sentences = [f"{context.title}: {sentence}" for sentence in findings.sentences]
    figures = [_figure(chart, context.title) for chart in findings.charts]
    return StudySection(sentences, [*figures, *map(_table, findings.tables)], findings.methods)


def _figure(chart: FindingsChart, title: str) -> Figure:
    drawn = interval_plot(
        [name for name, _ in chart.rows],
        [Points(chart.title, [point(e) for _, e in chart.rows])],
        title=f"{title}: {chart.title}",
        x_label=chart.x_label,
        span=chart.span,
        rule=chart.rule,
        text=lambda v: fmt(v, "%" if chart.percent else "3g"),
    )
    caption = f"{chart.caption} {scope(list(chart.rows), '95 % intervals')}".strip()
    return Figure(f"{title}: {chart.title}", caption, [("", drawn)], Markup(""))


def _table(one: FindingsTable) -> Table:
    rows = [[_cell(value, one.percent) for value in row] for row in one.rows]
    return table(one.title, [(heading, "") for heading in one.headings], rows, one.caption)


def _cell(value: Any, percent: bool) -> Any:
    if isinstance(value, Estimate):
        return percent_interval(value) if percent else number_interval(value, "2f")
    return fmt(value) if isinstance(value, float) else value
