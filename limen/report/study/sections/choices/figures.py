"""Charts of right answers."""

from markupsafe import Markup

from limen.listening.analysis.result_types import Choices, Confusion
from limen.report.blocks import Figure
from limen.report.study.charts import colour_key, keys_of, point, rows_and_points
from limen.report.svg.bars import Points, interval_plot, short, stacked_bars, tones
from limen.report.svg.boxes import heat_map

WIDE = 7
"""Number of answers beyond which confusion matrices get the full width."""


def shares(result: Choices, title: str) -> list[Figure]:
    """Right answers by each key, with a line at chance."""
    panels, drawn = [], []
    for keys in keys_of(result.shares):
        selected = [s for s in result.shares if s.where.keys == keys]
        rows, series = rows_and_points(selected, lambda s: s.share)
        words = " and ".join(keys)
        chart = interval_plot(
            rows,
            series,
            title=f"{title}: right answers by {words}",
            x_label="right answers, %",
            rule=(selected[0].chance, "chance"),
        )
        drawn.append(series)
        panels.append((f"by {words}", chart))
    caption = (
        "Share of right answers with 95 % intervals; the table shows what they generalise over. The line is "
        "the share that guessing gives."
    )
    return [Figure(f"{title}: right answers", caption, panels, colour_key(drawn))] if panels else []


def confidence(result: Choices, title: str, by: tuple[str, ...]) -> list[Figure]:
    """Share of right answers of each confidence, and how often each confidence was given."""
    overall = next(s for s in result.shares if not s.where.keys)
    if not overall.confidence:
        return []
    levels = [c.confidence for c in overall.confidence]
    accuracy = interval_plot(
        levels,
        [Points("all", [point(c.share) if c.n else None for c in overall.confidence])],
        title=f"{title}: right answers by confidence",
        x_label="right answers, %",
        rule=(overall.chance, "chance"),
    )
    split = [s for s in result.shares if s.where.keys == by and s.confidence] if by else []
    given = stacked_bars(
        [(str(s.where), [c.of_all for c in s.confidence]) for s in [*split, overall]],
        levels,
        title=f"{title}: confidence of answers",
        x_label="answers of each confidence, %",
        width=520,
    )
    caption = (
        "Left: share of right answers among those given with each confidence, with 95 % intervals (the table "
        "shows what they generalise over). Listeners who hear the difference are right more often when they "
        "are sure. Right: how often each confidence was given."
    )
    panels = [("right answers by confidence", accuracy), ("confidence given", given)]
    return [Figure(f"{title}: confidence", caption, panels, tones(levels))]


def confusions(result: Choices, title: str) -> list[Figure]:
    panels = [(str(c.where), _confusion(c, title)) for c in result.confusions]
    caption = (
        "Share of each answer (columns) for each spoken word (rows), in %. Free-text answers are shown as "
        "other."
    )
    wide = any(len(c.answers) > WIDE for c in result.confusions)
    if not panels:
        return []
    return [Figure(f"{title}: confusion matrix", caption, panels, Markup(""), wide=wide)]


def _confusion(c: Confusion, title: str) -> Markup:
    totals = [sum(line) or 1 for line in c.counts]
    values = [[n / total if n else None for n in line] for line, total in zip(c.counts, totals, strict=True)]
    truths, answers = ([short(word, 16) for word in words] for words in (c.truths, c.answers))
    return heat_map(
        truths,
        answers,
        values,
        title=f"{title}: answers, {c.where}",
        row_label="spoken",
        column_label="answered",
    )
