"""Charts as inline SVG: axes, lines with intervals, legends. Colours are CSS variables, so they follow dark
and light."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limen.report.formatting import fmt

SLOTS = 10
"""Colours of the palette (--s0 ... --s9 in page.css); the marker changes too, so that colour is never the
only difference."""
MARKERS = (
    "M{x:.1f},{y:.1f}m-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0",
    "M{x:.1f},{y:.1f}m-2.7,-2.7h5.4v5.4h-5.4z",
    "M{x:.1f},{y:.1f}m0,-3.6l3.4,6h-6.8z",
    "M{x:.1f},{y:.1f}m0,-3.8l3.8,3.8l-3.8,3.8l-3.8,-3.8z",
)
CONTROL = -1
"""Slot of the noise control: grey and dashed."""
ALL = -2
"""Slot of all attacks together: broad and pale, beneath the lines of the single attacks."""


@dataclass(frozen=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    slot: int = 0
    dashed: bool = False
    points: Sequence[str] = ()
    """Text of each point, shown when the pointer rests on it."""


@dataclass(frozen=True)
class Scale:
    """Data -> picture coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        v = math.log10(max(value, self.low)) if self.log else value
        return self.start + (self.end - self.start) * ((v - low) / (high - low) if high > low else 0.5)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) inside [low, high]."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = power * next(m for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    return [
        round(k * step, 12) + 0.0
        for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = (1, 2, 5) if math.log10(high / low) < 2.2 else (1,)
    return [m * 10.0**k for k in decades for m in marks if low * 0.999 <= m * 10.0**k <= high * 1.001]


def percent(value: float) -> str:
    return f"{100 * value:.0f}"


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] = (0.0, 1.0),
    y_text: Callable[[float], str] = percent,
    rule: tuple[float, str] | None = None,
    x_rule: tuple[float, str] | None = None,
    x_text: Callable[[float], str] = fmt,
    log: bool | None = None,
    width: int = 380,
    height: int = 250,
) -> Markup:
    """Lines over a number; `rule` is a dashed horizontal line, `x_rule` a vertical one. `log` of None: if
    x spans more than a decade."""
    xs = [x for s in series for x in s.x]
    log = min(xs) > 0 and max(xs) / min(xs) >= 30 if log is None else log
    left, right, top, bottom = 44, width - 12, 14, height - 40
    x = Scale(min(xs), max(xs), left, right, log)
    y = Scale(*y_range, bottom, top)
    parts = grid(
        x,
        y,
        log_ticks(x.low, x.high) if log else ticks(x.low, x.high),
        ticks(*y_range),
        x_text,
        y_text,
        x_label,
        y_label,
        width,
        height,
    )
    if rule:
        parts.append(
            Markup(
                '<line class="rule" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>'
                '<text class="rule-name" x="{}" y="{t:.1f}" text-anchor="end">{}</text>'
            ).format(
                left,
                right,
                right - 2,
                rule[1],
                y=y(rule[0]),
                t=y(rule[0]) + (13 if y(rule[0]) < top + 14 else -5),
            )
        )
    if x_rule and x.low <= x_rule[0] <= x.high:
        parts.append(
            Markup(
                '<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/><text class="rule-name" '
                'x="{t:.1f}" y="{}">{}</text>'
            ).format(top, bottom, top - 4, x_rule[1], x=x(x_rule[0]), t=x(x_rule[0]) - 16)
        )
    parts += [_line(s, x, y) for s in series]
    words = "; ".join(f"{s.name}: {', '.join(y_text(v) for v in s.y if v is not None)}" for s in series)
    return svg(parts, width, height, title, f"{y_label} against {x_label}. {words}.")


def _line(s: Series, x: Scale, y: Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in zip(s.x, s.y, strict=True) if b is not None]
    band = Markup("")
    if s.low and s.high:
        edge = [
            (x(a), y(lo), y(hi))
            for a, lo, hi in zip(s.x, s.low, s.high, strict=True)
            if lo is not None and hi is not None
        ]
        if len(edge) > 1:
            outline = [f"{a:.1f},{hi:.1f}" for a, _, hi in edge] + [
                f"{a:.1f},{lo:.1f}" for a, lo, _ in reversed(edge)
            ]
            band = Markup('<path class="band" d="M{}z"/>').format("L".join(outline))
    line = "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
    # beyond two dozen points markers would hide the line
    every = points if len(points) <= 24 else points[:: len(points) // 12]
    dots = "".join(MARKERS[max(s.slot, 0) % len(MARKERS)].format(x=a, y=b) for a, b in every)
    named = Markup("").join(
        Markup('<circle class="point" cx="{:.1f}" cy="{:.1f}" r="8"><title>{}</title></circle>').format(
            a, b, words
        )
        for (a, b), words in zip(points, s.points, strict=False)
    )
    kind = slot_class(s.slot) + (" dashed" if s.dashed else "")
    return Markup(
        '<g class="series {}"><title>{}</title>{}<path class="line" d="M{}"/><path class="dots" '
        'd="{}"/>{}</g>'
    ).format(kind, s.name, band, line, dots, named)


def interval_dot(mean: float | None, low: float | None, high: float | None) -> Markup:
    """A share between 0 and 1 as a dot with its interval, small enough for a table."""
    if mean is None:
        return Markup("")
    at = lambda v: 3 + 54 * v
    bar = (
        Markup('<path class="line" d="M{:.1f},7H{:.1f}"/>').format(at(low), at(high))
        if low is not None and high is not None
        else Markup("")
    )
    return Markup(
        '<svg class="dot" viewBox="0 0 60 14" width="60" height="14" aria-hidden="true"><path class="track" '
        'd="M3,7H57"/>'
        '{}<circle cx="{:.1f}" cy="7" r="3"/></svg>'
    ).format(bar, at(mean))


def slot_class(slot: int) -> str:
    return {CONTROL: "control", ALL: "together"}.get(slot, f"s{slot % SLOTS}")


def legend(names: Sequence[tuple[str, int]], boxes: bool = False) -> Markup:
    """A list of names with their colour and marker."""
    mark = lambda slot: "M2,3h16v8h-16z" if boxes else MARKERS[max(slot, 0) % len(MARKERS)].format(x=10, y=7)
    items = Markup("").join(
        Markup(
            '<li><svg class="series {}" viewBox="0 0 20 14" width="20" height="14" aria-hidden="true">'
            '{}<path class="dots" d="{}"/></svg>{}</li>'
        ).format(
            slot_class(slot), "" if boxes else Markup('<path class="line" d="M0,7h20"/>'), mark(slot), name
        )
        for name, slot in names
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def grid(
    x: Scale | None,
    y: Scale,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    x_label: str,
    y_label: str,
    width: int,
    height: int,
    bottom: float | None = None,
) -> list[Markup]:
    left, right, base = 44 if x else 48, width - 12, y.start if bottom is None else bottom
    parts = []
    for v in y_ticks:
        parts.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>'
                '<text class="tick" x="{}" y="{t:.1f}" text-anchor="end">{}</text>'
            ).format(left, right, left - 7, y_text(v), y=y(v), t=y(v) + 4)
        )
    for v in x_ticks:
        parts.append(
            Markup(
                '<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>'
                '<text class="tick" x="{x:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(base, base + 4, base + 17, x_text(v), x=x(v) if x else 0.0)
        )
    parts.append(
        Markup('<line class="base" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(left, right, y=base)
    )
    if x_label:
        parts.append(
            Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
                right, height - 6, x_label
            )
        )
    parts.append(
        Markup(
            '<text class="axis" transform="translate(11 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>'
        ).format((y.start + y.end) / 2, y_label)
    )
    return parts


def svg(
    parts: Sequence[Markup], width: int, height: int, title: str, description: str, fixed: bool = False
) -> Markup:
    size = Markup(' style="width:{}px"').format(width) if fixed else Markup("")
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img"{}><title>{}</title><desc>{}</desc>{}</svg>'
    ).format(width, height, size, title, description, Markup("").join(parts))
