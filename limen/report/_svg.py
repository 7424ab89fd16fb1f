"""Charts as inline SVG: lines with intervals, box plots, heat maps. Colours come from the page's CSS variables, so they follow dark and light."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from limen.report._words import fmt

SLOTS = 10
"""Colours of the palette (--s0 ... --s9 in page.css); the marker changes too, so that colour is never the only difference."""
MARKERS = (
    "M{x:.1f},{y:.1f}m-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0",
    "M{x:.1f},{y:.1f}m-2.7,-2.7h5.4v5.4h-5.4z",
    "M{x:.1f},{y:.1f}m0,-3.6l3.4,6h-6.8z",
    "M{x:.1f},{y:.1f}m0,-3.8l3.8,3.8l-3.8,3.8l-3.8,-3.8z",
)
CONTROL = -1
"""Slot of the noise control: grey and dashed."""


@dataclass(frozen=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    slot: int = 0


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
    return [round(k * step, 12) + 0.0 for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = (1, 2, 5) if math.log10(high / low) < 2.2 else (1,)
    return [m * 10.0**k for k in decades for m in marks if low * 0.999 <= m * 10.0**k <= high * 1.001]


def percent(value: float) -> str:
    return f"{100 * value:.0f}"


def line_chart(series: Sequence[Series], *, title: str, x_label: str, y_label: str, y_range: tuple[float, float] = (0.0, 1.0),
               y_text: Callable[[float], str] = percent, rule: tuple[float, str] | None = None, x_rule: tuple[float, str] | None = None,
               width: int = 380, height: int = 250) -> Markup:  # fmt: skip
    """Lines over a number; `rule` is a dashed horizontal line, `x_rule` a vertical one."""
    xs = [x for s in series for x in s.x]
    log = min(xs) > 0 and max(xs) / min(xs) >= 30
    left, right, top, bottom = 44, width - 12, 14, height - 40
    x = Scale(min(xs), max(xs), left, right, log)
    y = Scale(*y_range, bottom, top)
    parts = _grid(x, y, log_ticks(x.low, x.high) if log else ticks(x.low, x.high), ticks(*y_range), fmt, y_text, x_label, y_label, width, height)
    if rule:
        parts.append(Markup('<line class="rule" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/><text class="rule-name" x="{}" y="{t:.1f}">{}</text>')
                     .format(left, right, left + 4, rule[1], y=y(rule[0]), t=y(rule[0]) + (11 if y(rule[0]) < top + 14 else -5)))  # fmt: skip
    if x_rule and x.low <= x_rule[0] <= x.high:
        parts.append(Markup('<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/><text class="rule-name" x="{t:.1f}" y="{}">{}</text>')
                     .format(top, bottom, bottom - 6, x_rule[1], x=x(x_rule[0]), t=x(x_rule[0]) + 4))  # fmt: skip
    parts += [_line(s, x, y) for s in series]
    words = "; ".join(f"{s.name}: {', '.join(y_text(v) for v in s.y if v is not None)}" for s in series)
    return _svg(parts, width, height, title, f"{y_label} against {x_label}. {words}.")


def _line(s: Series, x: Scale, y: Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in zip(s.x, s.y, strict=True) if b is not None]
    band = Markup("")
    if s.low and s.high:
        edge = [(x(a), y(lo), y(hi)) for a, lo, hi in zip(s.x, s.low, s.high, strict=True) if lo is not None and hi is not None]
        if len(edge) > 1:
            outline = [f"{a:.1f},{hi:.1f}" for a, _, hi in edge] + [f"{a:.1f},{lo:.1f}" for a, lo, _ in reversed(edge)]
            band = Markup('<path class="band" d="M{}z"/>').format("L".join(outline))
    line = "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
    # beyond two dozen points markers would hide the line
    every = points if len(points) <= 24 else points[:: len(points) // 12]
    dots = "".join(MARKERS[max(s.slot, 0) % len(MARKERS)].format(x=a, y=b) for a, b in every)
    return Markup('<g class="series {}"><title>{}</title>{}<path class="line" d="M{}"/><path class="dots" d="{}"/></g>').format(
        slot_class(s.slot), s.name, band, line, dots)  # fmt: skip


def box_plot(groups: Sequence[tuple[str, Sequence[Sequence[float]]]], parts: Sequence[str], *, title: str, y_label: str,
             rule: tuple[float, str] | None = None, width: int = 760, height: int = 300) -> Markup:  # fmt: skip
    """For every group one box per part: quartiles, median, whiskers to the last value within 1.5 times the interquartile range."""
    everything = [v for _, boxes in groups for values in boxes for v in values] + ([rule[0]] if rule else [])
    marks = ticks(min(everything), max(everything), 6)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    slant = max((len(name) for name, _ in groups), default=0) * 6.5 > (width - 60) / max(len(groups), 1)
    left, right, top, bottom = 48, width - 12, 14, height - (70 if slant else 34)
    y = Scale(math.floor(min(everything) / step) * step, math.ceil(max(everything) / step) * step, bottom, top)
    slot = (right - left) / len(groups)
    body = _grid(None, y, [], ticks(y.low, y.high, 6), fmt, fmt, "", y_label, width, height, bottom)
    for g, (name, boxes) in enumerate(groups):
        centre = left + (g + 0.5) * slot
        turn = Markup(' transform="rotate(-38 {:.1f} {})" text-anchor="end"').format(centre, bottom + 16) if slant else Markup(' text-anchor="middle"')
        body.append(Markup('<text class="tick" x="{:.1f}" y="{}"{}>{}</text>').format(centre, bottom + 16, turn, name))
        each = min(26.0, 0.8 * slot / max(len(boxes), 1))
        for k, values in enumerate(boxes):
            if len(values):
                body.append(_box(np.asarray(values, float), centre + (k - (len(boxes) - 1) / 2) * each, 0.36 * each, y, k, f"{name}, {parts[k]}"))
    if rule:
        body.append(Markup('<line class="rule strong" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/><text class="rule-name" text-anchor="end" x="{}" y="{t:.1f}">{}</text>')
                    .format(left, right, right, rule[1], y=y(rule[0]), t=y(rule[0]) - 5))  # fmt: skip
    medians = "; ".join(f"{name}: " + ", ".join(f"{p} {fmt(float(np.median(v)), '1f')}" for p, v in zip(parts, boxes, strict=True) if len(v))
                        for name, boxes in groups)  # fmt: skip
    return _svg(body, width, height, title, f"{y_label}, medians. {medians}.")


def _box(values: np.ndarray, centre: float, half: float, y: Scale, slot: int, name: str) -> Markup:
    q1, q2, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    inside = values[(values >= q1 - 1.5 * (q3 - q1)) & (values <= q3 + 1.5 * (q3 - q1))]
    low, high = float(inside.min()), float(inside.max())
    path = (f"M{centre:.1f},{y(high):.1f}V{y(q3):.1f}M{centre:.1f},{y(q1):.1f}V{y(low):.1f}"
            f"M{centre - half / 2:.1f},{y(high):.1f}h{half:.1f}M{centre - half / 2:.1f},{y(low):.1f}h{half:.1f}")  # fmt: skip
    return Markup('<g class="box {}"><title>{}</title><path class="line" d="{}"/><rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                  '<path class="median" d="M{:.1f},{:.1f}h{:.1f}"/></g>').format(
        slot_class(slot), f"{name}: median {fmt(float(q2), '1f')}, quartiles {fmt(float(q1), '1f')} and {fmt(float(q3), '1f')}, n = {len(values)}",
        path, centre - half, y(q3), 2 * half, max(y(q1) - y(q3), 0.5), centre - half, y(q2), 2 * half)  # fmt: skip


def heat_map(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], *, title: str, row_label: str, column_label: str,
             text: Callable[[float], str] = percent, top_value: float = 1.0, side: int = 44) -> Markup:  # fmt: skip
    """A table of numbers as shades; each number is also written."""
    left = 26 + int(6.4 * max(len(r) for r in rows))
    head = 30 + int(5.2 * max(len(c) for c in columns))
    width, height = left + side * len(columns) + 24, head + 24 * len(rows) + 8
    body = [Markup('<text class="axis" x="{}" y="11" text-anchor="end">{} ↓</text><text class="axis" x="{}" y="11">{} →</text>').format(
        left - 8, row_label, left, column_label)]  # fmt: skip
    for j, name in enumerate(columns):
        x = left + (j + 0.5) * side
        body.append(Markup('<text class="tick" x="{x:.1f}" y="{y}" transform="rotate(-45 {x:.1f} {y})">{}</text>').format(name, x=x, y=head - 8))
    for i, name in enumerate(rows):
        y = head + 24 * i
        body.append(Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(left - 8, y + 16, name))
        for j, value in enumerate(values[i]):
            if value is None:
                continue
            share = min(max(value / top_value, 0.0), 1.0) if top_value else 0.0
            body.append(Markup('<g class="heat{}"><title>{}</title><rect x="{}" y="{}" width="{}" height="22" style="fill-opacity:{:.2f}"/>'
                               '<text x="{:.1f}" y="{}" text-anchor="middle">{}</text></g>').format(
                " full" if share > 0.55 else "", f"{name}, {columns[j]}: {text(value)}", left + j * side + 1, y, side - 2, 0.06 + 0.86 * share,
                left + (j + 0.5) * side, y + 15, text(value)))  # fmt: skip
    words = "; ".join(f"{r}: " + ", ".join(f"{c} {text(v)}" for c, v in zip(columns, line, strict=True) if v is not None)
                      for r, line in zip(rows, values, strict=True))  # fmt: skip
    return _svg(body, width, height, title, words, fixed=True)


def interval_dot(mean: float | None, low: float | None, high: float | None) -> Markup:
    """A share between 0 and 1 as a dot with its interval, small enough for a table."""
    if mean is None:
        return Markup("")
    at = lambda v: 3 + 74 * v  # noqa: E731
    bar = Markup('<path class="line" d="M{:.1f},7H{:.1f}"/>').format(at(low), at(high)) if low is not None and high is not None else Markup("")
    return Markup('<svg class="dot" viewBox="0 0 80 14" width="80" height="14" aria-hidden="true"><path class="track" d="M3,7H77"/>'
                  '{}<circle cx="{:.1f}" cy="7" r="3"/></svg>').format(bar, at(mean))  # fmt: skip


def slot_class(slot: int) -> str:
    return "control" if slot == CONTROL else f"s{slot % SLOTS}"


def legend(names: Sequence[tuple[str, int]], boxes: bool = False) -> Markup:
    """A list of names with their colour and marker."""
    mark = lambda slot: "M2,3h16v8h-16z" if boxes else MARKERS[max(slot, 0) % len(MARKERS)].format(x=10, y=7)  # noqa: E731
    items = Markup("").join(
        Markup('<li><svg class="series {}" viewBox="0 0 20 14" width="20" height="14" aria-hidden="true">{}<path class="dots" d="{}"/></svg>{}</li>').format(
            slot_class(slot), "" if boxes else Markup('<path class="line" d="M0,7h20"/>'), mark(slot), name)
        for name, slot in names)  # fmt: skip
    return Markup('<ul class="legend">{}</ul>').format(items)


def _grid(x: Scale | None, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], x_text: Callable[[float], str],
          y_text: Callable[[float], str], x_label: str, y_label: str, width: int, height: int, bottom: float | None = None) -> list[Markup]:  # fmt: skip
    left, right, base = 44 if x else 48, width - 12, y.start if bottom is None else bottom
    parts = []
    for v in y_ticks:
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/><text class="tick" x="{}" y="{t:.1f}" text-anchor="end">{}</text>')
                     .format(left, right, left - 7, y_text(v), y=y(v), t=y(v) + 4))  # fmt: skip
    for v in x_ticks:
        parts.append(Markup('<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/><text class="tick" x="{x:.1f}" y="{}" text-anchor="middle">{}</text>')
                     .format(base, base + 4, base + 17, x_text(v), x=x(v) if x else 0.0))  # fmt: skip
    parts.append(Markup('<line class="base" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(left, right, y=base))
    if x_label:
        parts.append(Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(right, height - 6, x_label))
    parts.append(Markup('<text class="axis" transform="translate(11 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>').format((y.start + y.end) / 2, y_label))
    return parts


def _svg(parts: Sequence[Markup], width: int, height: int, title: str, description: str, fixed: bool = False) -> Markup:
    size = Markup(' style="width:{}px"').format(width) if fixed else Markup("")
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img"{}><title>{}</title><desc>{}</desc>{}</svg>').format(
        width, height, size, title, description, Markup("").join(parts))  # fmt: skip
