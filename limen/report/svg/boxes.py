"""Box plots and heat maps as inline SVG."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from limen.report.formatting import fmt
from limen.report.svg.lines import Scale, grid, percent, slot_class, svg, ticks


def box_plot(
    groups: Sequence[tuple[str, Sequence[Sequence[float]]]],
    parts: Sequence[str],
    *,
    title: str,
    y_label: str,
    rule: tuple[float, str] | None = None,
    span: Sequence[float] = (),
    width: int = 760,
    height: int = 300,
) -> Markup:
    """For every group one box per part: quartiles, median, whiskers to the last value within 1.5 times the
    interquartile range.

    The axis holds every value, the rule and `span` (for charts side by side).
    """
    everything = [
        *span,
        *(v for _, boxes in groups for values in boxes for v in values),
        *([rule[0]] if rule else []),
    ]
    marks = ticks(min(everything), max(everything), 6)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    slant = max((len(name) for name, _ in groups), default=0) * 6.5 > (width - 60) / max(len(groups), 1)
    left, right, top, bottom = 48, width - (50 if rule else 12), 14, height - (70 if slant else 34)
    y = Scale(
        math.floor(min(everything) / step) * step, math.ceil(max(everything) / step) * step, bottom, top
    )
    slot = (right - left) / len(groups)
    body = grid(None, y, [], ticks(y.low, y.high, 6), fmt, fmt, "", y_label, right + 12, height, bottom)
    for g, (name, boxes) in enumerate(groups):
        centre = left + (g + 0.5) * slot
        turn = (
            Markup(' transform="rotate(-38 {:.1f} {})" text-anchor="end"').format(centre, bottom + 16)
            if slant
            else Markup(' text-anchor="middle"')
        )
        body.append(
            Markup('<text class="tick" x="{:.1f}" y="{}"{}>{}</text>').format(centre, bottom + 16, turn, name)
        )
        each = min(26.0, 0.8 * slot / max(len(boxes), 1))
        for k, values in enumerate(boxes):
            if len(values):
                body.append(
                    _box(
                        np.asarray(values, float),
                        centre + (k - (len(boxes) - 1) / 2) * each,
                        0.36 * each,
                        y,
                        k,
                        f"{name}, {parts[k]}",
                    )
                )
    if rule:
        body.append(
            Markup(
                '<line class="rule strong" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/><text '
                'class="rule-name" x="{}" y="{t:.1f}">{}</text>'
            ).format(left, right, right + 4, rule[1], y=y(rule[0]), t=y(rule[0]) + 4)
        )
    medians = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{p} {fmt(float(np.median(v)), '1f')}" for p, v in zip(parts, boxes, strict=True) if len(v)
        )
        for name, boxes in groups
    )
    return svg(body, width, height, title, f"{y_label}, medians. {medians}.")


def _box(values: np.ndarray, centre: float, half: float, y: Scale, slot: int, name: str) -> Markup:
    q1, q2, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    inside = values[(values >= q1 - 1.5 * (q3 - q1)) & (values <= q3 + 1.5 * (q3 - q1))]
    low, high = float(inside.min()), float(inside.max())
    path = (
        f"M{centre:.1f},{y(high):.1f}V{y(q3):.1f}M{centre:.1f},{y(q1):.1f}V{y(low):.1f}"
        f"M{centre - half / 2:.1f},{y(high):.1f}h{half:.1f}M{centre - half / 2:.1f},{y(low):.1f}h{half:.1f}"
    )
    return Markup(
        '<g class="box {}"><title>{}</title><path class="line" d="{}"/><rect x="{:.1f}" y="{:.1f}" '
        'width="{:.1f}" height="{:.1f}"/>'
        '<path class="median" d="M{:.1f},{:.1f}h{:.1f}"/></g>'
    ).format(
        slot_class(slot),
        f"{name}: median {fmt(float(q2), '1f')}, quartiles {fmt(float(q1), '1f')} and "
        f"{fmt(float(q3), '1f')}, n = {len(values)}",
        path,
        centre - half,
        y(q3),
        2 * half,
        max(y(q1) - y(q3), 0.5),
        centre - half,
        y(q2),
        2 * half,
    )


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    row_label: str,
    column_label: str,
    text: Callable[[float], str] = percent,
    top_value: float = 1.0,
    side: int = 44,
) -> Markup:
    """A table of numbers as shades; each number is also written."""
    left = max(52, 26 + int(6.4 * max(len(r) for r in rows)))
    head = 30 + int(5.2 * max(len(c) for c in columns))
    width, height = left + side * len(columns) + 24, head + 24 * len(rows) + 8
    body = [
        Markup(
            '<text class="axis" x="{}" y="11" text-anchor="end">{} ↓</text><text class="axis" x="{}" '
            'y="11">{} →</text>'
        ).format(left - 8, row_label, left, column_label)
    ]
    for j, name in enumerate(columns):
        x = left + (j + 0.5) * side
        body.append(
            Markup(
                '<text class="tick" x="{x:.1f}" y="{y}" transform="rotate(-45 {x:.1f} {y})">{}</text>'
            ).format(name, x=x, y=head - 8)
        )
    for i, name in enumerate(rows):
        y = head + 24 * i
        body.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                left - 8, y + 16, name
            )
        )
        for j, value in enumerate(values[i]):
            if value is None:
                continue
            share = min(max(value / top_value, 0.0), 1.0) if top_value else 0.0
            body.append(
                Markup(
                    '<g class="heat{}"><title>{}</title><rect x="{}" y="{}" width="{}" height="22" '
                    'style="fill-opacity:{:.2f}"/>'
                    '<text x="{:.1f}" y="{}" text-anchor="middle">{}</text></g>'
                ).format(
                    " full" if share > 0.75 else "",
                    f"{name}, {columns[j]}: {text(value)}",
                    left + j * side + 1,
                    y,
                    side - 2,
                    0.06 + 0.86 * share,
                    left + (j + 0.5) * side,
                    y + 15,
                    text(value),
                )
            )
    words = "; ".join(
        f"{r}: " + ", ".join(f"{c} {text(v)}" for c, v in zip(columns, line, strict=True) if v is not None)
        for r, line in zip(rows, values, strict=True)
    )
    return svg(body, width, height, title, words, fixed=True)
