"""Dots on lines: one row per name, one mark per series, for numbers that belong to words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limen.report.svg.lines import MARKERS, Scale, percent, slot_class, svg, ticks

ROW = 30
"""Height of a row in pixels."""


@dataclass(frozen=True)
class Dots:
    name: str
    values: Sequence[float | None]
    """One per row."""
    slot: int = 0


def dot_plot(
    rows: Sequence[str], series: Sequence[Dots], *, title: str, x_label: str, width: int = 460
) -> Markup:
    """Shares (0 to 1, or more) across, names down."""
    left = max(52, 18 + int(6.6 * max(len(r) for r in rows)))
    right, top = width - 14, 8
    bottom = top + ROW * len(rows)
    highest = max([1.0, *(v for s in series for v in s.values if v is not None)])
    x = Scale(0.0, math.ceil(highest * 4) / 4, left, right)
    parts = []
    for v in ticks(0.0, x.high):
        parts.append(
            Markup(
                '<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>'
                '<text class="tick" x="{x:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(top, bottom, bottom + 16, percent(v), x=x(v))
        )
    for i, name in enumerate(rows):
        y = top + (i + 0.5) * ROW
        known = [x(s.values[i]) for s in series if s.values[i] is not None]  # type: ignore[arg-type]
        span = (
            Markup('<line class="span" x1="{:.1f}" x2="{:.1f}" y1="{y}" y2="{y}"/>').format(
                min(known), max(known), y=y
            )
            if known
            else ""
        )
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>{}').format(
                left - 8, y + 4, name, span
            )
        )
    for k, s in enumerate(series):
        # marks of one row are shifted a little, so that equal numbers do not hide each other
        shift = (k - (len(series) - 1) / 2) * min(7.0, (ROW - 12) / len(series))
        marks = Markup("").join(
            Markup('<path class="dots" d="{}"><title>{}</title></path>').format(
                MARKERS[s.slot % len(MARKERS)].format(x=x(v), y=top + (i + 0.5) * ROW + shift),
                f"{rows[i]}, {s.name}: {percent(v)} %",
            )
            for i, v in enumerate(s.values)
            if v is not None
        )
        parts.append(Markup('<g class="series {}">{}</g>').format(slot_class(s.slot), marks))
    parts.append(
        Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
            right, bottom + 34, x_label
        )
    )
    words = [
        ", ".join(f"{r} {percent(v)}" for r, v in zip(rows, s.values, strict=True) if v is not None)
        for s in series
    ]
    description = "; ".join(f"{s.name}: {numbers}" for s, numbers in zip(series, words, strict=True))
    return svg(parts, width, bottom + 40, title, f"{x_label}. {description}.")
