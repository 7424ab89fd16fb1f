"""Ratings from 0 to 100 with a hidden reference (MUSHRA): boxes, means, and comparisons with the
reference."""

from markupsafe import Markup

from limen.listening.analysis.result_types import Sliders
from limen.report.blocks import Figure
from limen.report.formatting import fmt, listed
from limen.report.study.charts import colour_key, keys_of, rows_and_points
from limen.report.study.methods import AGREEMENT, INDEPENDENT
from limen.report.study.section import Context, StudySection
from limen.report.study.sections.ratings import agreement_notes, best_first, rating_tables
from limen.report.study.sentences import number_interval, p_text
from limen.report.svg.bars import interval_plot, short
from limen.report.svg.boxes import box_plot

METHODS = {
    **INDEPENDENT,
    "MUSHRA": "Means and differences from the hidden reference over listeners and items, Holm-corrected; "
    "also Wilcoxon’s signed-rank test over listeners, for these items only.",
    **AGREEMENT,
}
SCALE = (0.0, 100.0)


def sliders(result: Sliders, context: Context) -> StudySection:
    blocks = [
        *_boxes(result, context),
        *_means(result, context.title),
        *rating_tables(result),
        *agreement_notes(result.agreement),
    ]
    return StudySection(_sentences(result, context.title), blocks, METHODS)


def _sentences(result: Sliders, title: str) -> list[str]:
    means = best_first(result, ("condition",)) or best_first(result, ())
    shown = listed([f"{name} {number_interval(mean)}" for name, mean in means])
    out = [f"{title}, mean ratings: {shown}."]
    overall = [c for c in result.comparisons if not c.where.keys]
    if not overall:
        return out
    against = listed([f"{c.conditions[1]} {p_text(c.p)}" for c in overall])
    first = overall[0]
    return [
        *out,
        f"Compared with {first.conditions[0]} (over {first.over}, Holm-corrected): {against}.",
    ]


def _boxes(result: Sliders, context: Context) -> list[Figure]:
    rated = [row for row in context.rows if row["kind"] == result.trial and row["rating"] is not None]
    rows = [row for row in rated if row["role"] == "trial" and not row["excluded"]]
    boxes = [
        (short(name, 20), [[row["rating"] for row in rows if row["condition"] == name]])
        for name, _ in best_first(result, ("condition",))
    ]
    if not boxes:
        return []
    title = f"{context.title}: ratings"
    chart = box_plot(boxes, ["ratings"], title=title, y_label="rating", span=SCALE)
    caption = (
        "All ratings: quartiles, median, and whiskers to the last value within 1.5 interquartile ranges."
    )
    return [Figure(title, caption, [("", chart)], Markup(""), wide=True)]


def _means(result: Sliders, title: str) -> list[Figure]:
    panels, drawn = [], []
    for keys in keys_of(result.ratings):
        if keys[-1] == "condition":
            cells = [r for r in result.ratings if r.where.keys == keys]
            names, series = rows_and_points(cells, lambda r: r.mean)
            drawn.append(series)
            words = " and ".join(keys)
            chart = interval_plot(
                names,
                series,
                title=f"{title}: means by {words}",
                x_label="mean rating",
                span=SCALE,
                text=lambda v: fmt(v, "0f"),
            )
            panels.append((f"by {words}", chart))
    caption = "Means with 95 % intervals; the table shows what they generalise over."
    return [Figure(f"{title}: means", caption, panels, colour_key(drawn))] if panels else []
