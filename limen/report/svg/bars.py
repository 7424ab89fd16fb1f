"""Points with intervals by name, and shares as stacked bars, as inline SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limen.report.svg.lines import MARKERS, Scale, percent, slot_class, svg, ticks

ROW = 26
"""Height of a row in pixels."""


def short(name: str, most: int = 30) -> str:
    """A name short enough for the side of a chart; the tables have all of it."""
    return name if len(name) <= most else name[: most - 1] + "…"


@dataclass(frozen=True)
class Points:
    """One mark with its interval per row; None leaves the row without one."""

    name: str
    values: Sequence[tuple[float, float | None, float | None] | None]
    slot: int = 0


def interval_plot(
    rows: Sequence[str],
    series: Sequence[Points],
    *,
    title: str,
    x_label: str,
    span: tuple[float, float] = (0.0, 1.0),
    rule: tuple[float, str] | None = None,
    text: Callable[[float], str] = percent,
    width: int = 520,
) -> Markup:
    """Values across with their intervals, names down; `rule` is a vertical line (chance)."""
    left = min(226, max(60, 18 + int(6.6 * max(len(r) for r in rows))))
    right, top = width - 16, 22 if rule else 8
    most = max(sum(s.values[i] is not None for s in series) for i in range(len(rows)))
    each = max(ROW, 15 * most + 8)
    bottom = top + each * len(rows)
    x = Scale(*span, left, right)
    parts = []
    for v in ticks(*span):
        parts.append(
            Markup(
                '<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>'
                '<text class="tick" x="{x:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(top, bottom, bottom + 16, text(v), x=x(v))
        )
    if rule:
        parts.append(
            Markup(
                '<line class="rule strong" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>'
                '<text class="rule-name" x="{x:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(top, bottom, top - 7, rule[1], x=x(rule[0]))
        )
    for i, name in enumerate(rows):
        y = top + (i + 0.5) * each
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                left - 9, y + 4, short(name)
            )
        )
    # marks of one row must not overlap
    there = [[k for k, s in enumerate(series) if s.values[i] is not None] for i in range(len(rows))]
    each_y = [
        {k: top + (i + 0.5) * each + (n - (len(ks) - 1) / 2) * 15 for n, k in enumerate(ks)}
        for i, ks in enumerate(there)
    ]
    for k, s in enumerate(series):
        marks = Markup("").join(
            _mark(s, value, x, each_y[i][k], rows[i], text)
            for i, value in enumerate(s.values)
            if value is not None
        )
        parts.append(Markup('<g class="series {}">{}</g>').format(slot_class(s.slot), marks))
    parts.append(
        Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
            right, bottom + 34, x_label
        )
    )
    description = "; ".join(
        f"{s.name}: "
        + ", ".join(f"{r} {_words(v, text)}" for r, v in zip(rows, s.values, strict=True) if v is not None)
        for s in series
    )
    return svg(parts, width, bottom + 40, title, f"{x_label}. {description}.")


def _words(value: tuple[float, float | None, float | None], text: Callable[[float], str]) -> str:
    mean, low, high = value
    return text(mean) + (f" ({text(low)} to {text(high)})" if low is not None and high is not None else "")


def _mark(
    s: Points,
    value: tuple[float, float | None, float | None],
    x: Scale,
    y: float,
    row: str,
    text: Callable[[float], str],
) -> Markup:
    mean, low, high = value
    line = Markup("")
    if low is not None and high is not None:
        a, b = x(max(low, x.low)), x(min(high, x.high))
        line = Markup(
            '<path class="line" d="M{a:.1f},{y:.1f}H{b:.1f}M{a:.1f},{t:.1f}v6M{b:.1f},{t:.1f}v6"/>'
        ).format(a=a, b=b, y=y, t=y - 3)
    return Markup('<g><title>{}</title>{}<path class="dots" d="{}"/></g>').format(
        f"{row}, {s.name}: {_words(value, text)}",
        line,
        MARKERS[s.slot % len(MARKERS)].format(x=x(min(max(mean, x.low), x.high)), y=y),
    )


def stacked_bars(
    rows: Sequence[tuple[str, Sequence[float]]],
    levels: Sequence[str],
    *,
    title: str,
    x_label: str,
    width: int = 620,
) -> Markup:
    """For every row its shares as one bar, lowest level first."""
    left = min(226, max(70, 18 + int(6.6 * max(len(r) for r, _ in rows))))
    right, top, thick = width - 16, 6, 22
    each = thick + 8
    bottom = top + each * len(rows)
    x = Scale(0.0, 1.0, left, right)
    parts = []
    for i, (name, shares) in enumerate(rows):
        y = top + i * each
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                left - 9, y + 15, short(name)
            )
        )
        start = 0.0
        for k, share in enumerate(shares):
            if share > 0:
                a, wide = x(start), x(start + share) - x(start)
                label = Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                    a + wide / 2, y + 15, percent(share)
                )
                kind, tone = _tone(k, len(shares))
                parts.append(
                    Markup(
                        '<g class="part {}" style="--tone:{:.0f}%"><title>{}</title>'
                        '<rect x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>{}</g>'
                    ).format(
                        kind,
                        tone,
                        f"{name}, {levels[k]}: {100 * share:.1f} %",
                        a,
                        y,
                        max(wide - 1, 0.5),
                        thick,
                        label if wide > 20 else "",
                    )
                )
            start += share
    parts.append(
        Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
            right, bottom + 16, x_label
        )
    )
    description = "; ".join(
        f"{name}: " + ", ".join(f"{level} {percent(s)}" for level, s in zip(levels, shares, strict=True))
        for name, shares in rows
    )
    return svg(parts, width, bottom + 22, title, f"{x_label}. {description}.")


def _tone(k: int, n: int) -> tuple[str, float]:
    """Side of the scale and strength of its colour, in %: strong at both ends, pale in the middle."""
    t = 2 * k / (n - 1) - 1 if n > 1 else 1.0
    return ("low" if t < 0 else "high") + (" full" if abs(t) > 0.75 else ""), 12 + 76 * abs(t)


def tones(levels: Sequence[str]) -> Markup:
    """The legend of stacked bars."""
    items = Markup("").join(
        Markup(
            '<li><svg class="part {}" style="--tone:{:.0f}%" viewBox="0 0 20 14" width="20" height="14" '
            'aria-hidden="true">'
            '<rect x="2" y="2" width="16" height="10"/></svg>{}</li>'
        ).format(*_tone(k, len(levels)), name)
        for k, name in enumerate(levels)
    )
    return Markup('<ul class="legend">{}</ul>').format(items)
