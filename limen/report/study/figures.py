"""Charts of a listening study: shares with their intervals, ratings, scales, curves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from limen.listening.analysis.result_types import (
    Choices,
    Confusion,
    Estimate,
    Preference,
    Rated,
    Ratings,
    Share,
    Thresholds,
)
from limen.perception.psychometric import probability
from limen.report.blocks import Figure
from limen.report.formatting import fmt
from limen.report.svg.bars import Points, interval_plot, short, stacked_bars, tones
from limen.report.svg.boxes import box_plot, heat_map
from limen.report.svg.lines import Series, legend, line_chart

CURVES = 40
"""Listeners whose own curves are drawn; beyond, the chart would be a grey cloud."""


def point(e: Estimate) -> tuple[float, float | None, float | None] | None:
    return None if e.value is None else (e.value, e.low, e.high)


def kinds_of(cells: Sequence[Share] | Sequence[Ratings]) -> list[tuple[str, ...]]:
    """Ways in which the answers were split, in order, without the whole."""
    return [keys for keys in dict.fromkeys(c.where.keys for c in cells) if keys]


def _lines(
    cells: Sequence[Share] | Sequence[Ratings], of: Callable[[Any], Estimate]
) -> tuple[list[str], list[Points]]:
    """Rows and marks of cells with the same keys; of two keys the first down, the second by colour."""
    if len(cells[0].where.keys) == 1:
        return [str(c.where) for c in cells], [Points(cells[0].where.keys[0], [point(of(c)) for c in cells])]
    rows, second = (list(dict.fromkeys(c.where.values[i] for c in cells)) for i in (0, 1))
    found = {c.where.values: point(of(c)) for c in cells}
    return rows, [Points(b, [found.get((a, b)) for a in rows], k) for k, b in enumerate(second)]


def _key(panels: Sequence[Sequence[Points]]) -> Markup:
    """Legend of all panels with several colours."""
    names = {s.name: s.slot for series in panels if len(series) > 1 for s in series}
    return legend(list(names.items())) if names else Markup("")


def shares(part: Choices, name: str) -> list[Figure]:
    """Right answers by each key, with the line of chance."""
    panels, drawn = [], []
    for keys in kinds_of(part.shares):
        mine = [s for s in part.shares if s.where.keys == keys]
        rows, series = _lines(mine, lambda s: s.share)
        words = " and ".join(keys)
        title = f"{name}: right answers by {words}"
        drawn.append(series)
        panels.append(
            (
                f"by {words}",
                interval_plot(
                    rows, series, title=title, x_label="right answers, %", rule=(mine[0].chance, "chance")
                ),
            )
        )
    caption = (
        "Share of right answers with 95 % intervals; the table says what they hold for. The line is "
        "what guessing gives."
    )
    return [Figure(f"{name}: right answers", caption, panels, _key(drawn))] if panels else []


def confidence(part: Choices, name: str, by: tuple[str, ...]) -> list[Figure]:
    """How often answers of each confidence are right, and how often each confidence was given."""
    whole = next(s for s in part.shares if not s.where.keys)
    if not whole.sure:
        return []
    levels = [s.confidence for s in whole.sure]
    accuracy = interval_plot(
        levels,
        [Points("all", [point(s.share) if s.n else None for s in whole.sure])],
        title=f"{name}: right answers by confidence",
        x_label="right answers, %",
        rule=(whole.chance, "chance"),
    )
    split = [s for s in part.shares if s.where.keys == by and s.sure] if by else []
    given = stacked_bars(
        [(str(s.where), [c.of_all for c in s.sure]) for s in [*split, whole]],
        levels,
        title=f"{name}: confidence of answers",
        x_label="answers of each confidence, %",
        width=520,
    )
    caption = (
        "Left: of the answers given with each confidence, the share that was right, with 95 % intervals (the "
        "table says what they hold for). A listener who knows what they hear is right more often when sure. "
        "Right: how often each confidence was given."
    )
    return [
        Figure(
            f"{name}: confidence",
            caption,
            [("right answers by confidence", accuracy), ("confidence given", given)],
            tones(levels),
        )
    ]


def confusion(c: Confusion, name: str) -> Markup:
    totals = [sum(line) or 1 for line in c.counts]
    values = [[n / total if n else None for n in line] for line, total in zip(c.counts, totals, strict=True)]
    truths, answers = ([short(word, 16) for word in words] for words in (c.truths, c.answers))
    return heat_map(
        truths,
        answers,
        values,
        title=f"{name}: answers, {c.where}",
        row_label="said",
        column_label="answered",
    )


def confusions(part: Choices, name: str) -> list[Figure]:
    panels = [(str(c.where), confusion(c, name)) for c in part.confusions]
    caption = (
        "Share of each answer (columns) among the answers to clips of each truth (rows), in %. Free "
        "answers count as other."
    )
    wide = any(len(c.answers) > 7 for c in part.confusions)
    return (
        [Figure(f"{name}: what was taken for what", caption, panels, Markup(""), wide=wide)] if panels else []
    )


def ratings(part: Rated, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Distributions as stacked bars; of sliders boxes and means."""
    if not part.levels:
        return _sliders(part, name, rows)
    levels, panels = [fmt(v) for v in part.levels], []
    for keys in kinds_of(part.ratings) or [()]:
        mine = [(str(r.where), [n / r.n for n in r.counts]) for r in part.ratings if r.where.keys == keys]
        words = f"by {' and '.join(keys)}" if keys else "all"
        panels.append(
            (words, stacked_bars(mine, levels, title=f"{name} {words}", x_label="ratings, %", width=520))
        )
    return [Figure(f"{name}: ratings", "Share of each rating, lowest first, in %.", panels, tones(levels))]


def _sliders(part: Rated, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    best = sorted(
        (r for r in part.ratings if r.where.keys == ("condition",)), key=lambda r: -(r.mean.value or 0.0)
    )
    mine = [
        row
        for row in rows
        if row["kind"] == part.kind
        and row["role"] == "trial"
        and not row["excluded"]
        and row["rating"] is not None
    ]
    boxes = [
        (short(str(r.where), 20), [[row["rating"] for row in mine if row["condition"] == r.where.values[0]]])
        for r in best
    ]
    out = []
    if boxes:
        chart = box_plot(boxes, ["ratings"], title=f"{name}: ratings", y_label="rating", span=(0.0, 100.0))
        caption = (
            "All ratings: quartiles, median, whiskers to the last value within 1.5 times the "
            "interquartile range."
        )
        out.append(Figure(f"{name}: ratings", caption, [("", chart)], Markup(""), wide=True))
    panels, drawn = [], []
    for keys in kinds_of(part.ratings):
        if keys[-1] == "condition":
            names, series = _lines([r for r in part.ratings if r.where.keys == keys], lambda r: r.mean)
            drawn.append(series)
            words = " and ".join(keys)
            chart = interval_plot(
                names,
                series,
                title=f"{name}: means by {words}",
                x_label="mean rating",
                span=(0.0, 100.0),
                text=lambda v: fmt(v, "0f"),
            )
            panels.append((f"by {words}", chart))
    caption = "Means with 95 % intervals; the table says what they hold for."
    return [*out, Figure(f"{name}: means", caption, panels, _key(drawn))] if panels else out


def worth(part: Preference, name: str) -> list[Figure]:
    known = [(n, e) for n, e in part.worth if e.value is not None]
    if not known:
        return []
    ends = [abs(v) for _, e in known for v in (e.value, e.low, e.high) if v is not None]
    reach = max(ends, default=1.0) * 1.05 or 1.0
    chart = interval_plot(
        [n for n, _ in known],
        [Points("worth", [point(e) for _, e in known])],
        title=f"{name}: Bradley-Terry worth",
        x_label="log worth (0: the mean of all)",
        span=(-reach, reach),
        rule=(0.0, "mean"),
        text=lambda v: fmt(v, "1f"),
    )
    caption = (
        "Bradley-Terry: the odds that one condition is preferred to another are the ratio of their worths. "
        "95 % intervals from drawing listeners, of these items."
    )
    return [Figure(f"{name}: scale", caption, [("", chart)], Markup(""))]


def curves(part: Thresholds, name: str) -> list[Figure]:
    """One panel per axis: the population's curve with its band, each listener's own, and what was
    answered."""
    panels = []
    for axis in part.axes:
        mine = [t for t in part.listeners if t.axis == axis.axis][:CURVES]
        at = [float(v) for v in range(0, 101, 2)]
        own = [
            Series(
                f"listener {t.listener}", at, [float(v) for v in probability(at, **_point(t.best))], slot=-1
            )
            for t in mine
        ]
        x = [c[0] for c in axis.curve]
        whole = Series(
            "all listeners",
            x,
            [c[1] for c in axis.curve],
            [c[2] for c in axis.curve],
            [c[3] for c in axis.curve],
        )
        chart = line_chart(
            [*own, whole],
            title=f"{name}: {axis.axis}",
            x_label="strength",
            y_label="“different”, %",
            log=False,
            x_rule=(axis.threshold.value, f"{axis.threshold.value:.0f}")
            if axis.threshold.value is not None
            else None,
        )
        panels.append((axis.axis, chart))
    caption = (
        "Share of “different” against strength. Blue: the mean listener, with a 95 % band; grey: the most "
        "probable curve of each listener. The dotted line is the threshold of the study."
    )
    return [Figure(f"{name}: psychometric curves", caption, panels, Markup(""))] if panels else []


def _point(best: dict[str, float]) -> dict[str, float]:
    return {name: best[name] for name in ("threshold", "slope", "lapse", "gamma")}


def thresholds(part: Thresholds, name: str) -> list[Figure]:
    """Every listener's threshold with its interval, by axis."""
    panels = []
    for axis in part.axes:
        mine = sorted(
            (t for t in part.listeners if t.axis == axis.axis), key=lambda t: t.threshold.value or 0.0
        )
        rows = [f"listener {t.listener}" for t in mine] + ["all"]
        chart = interval_plot(
            rows,
            [
                Points("listener", [*(point(t.threshold) for t in mine), None]),
                Points("all listeners", [*(None for _ in mine), point(axis.threshold)], 1),
            ][: 2 if axis.threshold.value is not None else 1],
            title=f"{name}: thresholds, {axis.axis}",
            x_label="threshold (strength heard half the time)",
            span=(0.0, 100.0),
            text=lambda v: fmt(v, "0f"),
        )
        panels.append((axis.axis, chart))
    caption = (
        "Threshold of each listener with its 95 % credible interval, and the mean of the population "
        "they come from."
    )
    return (
        [
            Figure(
                f"{name}: thresholds of listeners",
                caption,
                panels,
                Markup(""),
                folded=len(part.listeners) > 12,
            )
        ]
        if panels
        else []
    )
