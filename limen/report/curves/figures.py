"""Figures of curves: one panel per net and defence, noise of the same size in each, and nets compared."""

import math
from collections.abc import Callable

from markupsafe import Markup

from limen.report.blocks import Figure
from limen.report.curves.curve import Curve
from limen.report.formatting import listed
from limen.report.places import facet_name
from limen.report.run import CellResult, number
from limen.report.svg.lines import ALL, CONTROL, Series, legend, line_chart
from limen.report.transcripts import error_rate, how_compared
from limen.report.worst_case.cells import NAME

WORDS = {"wer": "Word error rate", "accuracy": "Accuracy"}

Panel = Callable[[str, list[Series], float | None], tuple[str, Markup]]
"""Heading, lines and clean rate -> heading and chart."""


def curve_figures(
    curves: list[Curve],
    what: str,
    option: str,
    axis: str,
    colours: dict[str, int],
    samples: str,
    clean: dict[tuple[str, str], float] | None = None,
) -> list[Figure]:
    """One panel per net and defence; one per attack, too, if several nets had the same attack."""
    reach = [v for c in curves for v in (*c.y, *c.high) if v is not None]
    top = _top(max(reach, default=1.0)) if what == "wer" else 1.0
    known = {
        place: _clean(place, curves, what, clean or {}) for place in dict.fromkeys(c.place for c in curves)
    }

    def panel(heading: str, series: list[Series], rule: float | None) -> tuple[str, Markup]:
        title = f"{WORDS[what]} against {option}: {heading}"
        named = None if rule is None else (rule, "clean")
        return heading, line_chart(
            series, title=title, x_label=axis, y_label=f"{WORDS[what]}, %", y_range=(0.0, top), rule=named
        )

    panels, without, names = [], [], dict.fromkeys(c.name for c in curves if not c.noise)
    for place, rate in known.items():
        here = [c for c in curves if c.place == place]
        noise = _different([c for c in here if c.noise])
        if not noise:
            without.append(facet_name(*place))
        series = [_series(c, ALL if c.name == NAME else colours.get(c.name, 0)) for c in here if not c.noise]
        series += [
            _series(c, CONTROL if len(noise) == 1 else colours.get(c.cell.attack, 0), dashed=True)
            for c in noise
        ]
        panels.append(panel(facet_name(*place), series, rate))
    controls = list(dict.fromkeys(c.name for c in curves if c.noise))
    together = [(NAME, ALL)] if NAME in names else []
    key = legend(
        [(n, colours.get(n, 0)) for n in names if n != NAME] + together + [(n, CONTROL) for n in controls]
    )
    caption = _caption(what, curves, without, any(rate is not None for rate in known.values()), samples)
    title = f"{WORDS[what]} against {option}"
    return [Figure(title, caption, panels, key), *_compared(curves, title, panel)]


def _top(reach: float) -> float:
    """The end of the axis of error rates: 100 %, 125 %, or a multiple of 50 %."""
    return next((top for top in (1.0, 1.25) if reach <= top + 0.02), math.ceil(2 * reach) / 2)


def _compared(curves: list[Curve], title: str, panel: Panel) -> list[Figure]:
    """One panel per attack with one colour per net; the noise control of a net is dashed in its colour."""
    places = list(dict.fromkeys(c.place for c in curves))
    panels = []
    for attack in dict.fromkeys(c.name for c in curves if not c.noise):
        here = [c for c in curves if c.name == attack and not c.noise]
        if len({c.place for c in here}) < 2:
            continue
        noise = [
            n for c in here for n in _different([n for n in curves if n.noise and n.place == c.place])[:1]
        ]
        series = [_series(c, places.index(c.place), name=facet_name(*c.place)) for c in here]
        series += [
            _series(n, places.index(n.place), dashed=True, name=f"{facet_name(*n.place)}: {n.name}")
            for n in noise
        ]
        panels.append(panel(attack, series, None))
    if not panels:
        return []
    key = legend([(facet_name(*place), k) for k, place in enumerate(places)])
    return [
        Figure(
            f"{title}: models compared",
            "Dashed: noise control of the model of the same colour.",
            panels,
            key,
        )
    ]


def _series(curve: Curve, slot: int, dashed: bool = False, name: str = "") -> Series:
    return Series(name or curve.name, curve.x, curve.y, curve.low, curve.high, slot, dashed)


def _different(curves: list[Curve]) -> list[Curve]:
    """The noise of several attacks is often the same: it is drawn once."""
    return list(
        {tuple(None if v is None else round(v, 6) for v in c.y): c for c in reversed(curves)}.values()
    )[::-1]


def _clean(
    place: tuple[str, str], curves: list[Curve], what: str, known: dict[tuple[str, str], float]
) -> float | None:
    """The rate on clean samples: that of the cell without an attack, of the curve's own columns, or of the
    clean predictions in the rows."""
    if place in known:
        return known[place]
    cell = next(c.cell for c in curves if c.place == place)
    column = "clean_wer" if what == "wer" else "clean_correct"
    stated = number(cell.curve.get(column))
    stated = cell.value(column) if stated is None else stated
    if stated is not None or not cell.curve:
        return stated
    rows = cell.rows
    answers = {
        i: (str(a), str(b))
        for i, a, b in zip(*(rows.get(k, []) for k in ("id", "label", "clean_prediction")), strict=False)
    }
    if not answers:
        return None
    if what == "wer":
        return error_rate(
            [a for a, _ in answers.values()], [b for _, b in answers.values()], how_compared(cell)
        )
    return sum(a == b for a, b in answers.values()) / len(answers)


def _caption(what: str, curves: list[Curve], without: list[str], clean: bool, samples: str) -> str:
    parts = [
        *(["Word error rate: all errors over all words."] if what == "wer" else []),
        "Shaded: 95 % intervals.",
    ]
    if clean:
        parts.append(f"Dotted line: {WORDS[what].lower()} on clean samples.")
    if any(c.noise for c in curves):
        apart = any(
            len(_different([n for n in curves if n.noise and n.place == c.place])) > 1 for c in curves
        )
        colour = " (in the colour of the attack with the same size)" if apart else ""
        parts.append(f"Dashed curve: random noise of the same size{colour}.")
    if any(c.name == NAME for c in curves):
        worst = (
            "the most errors that any attack caused in each clip"
            if what == "wer"
            else "right only if no attack made the prediction wrong"
        )
        worst += "; attacks of smaller budgets count too"
        parts.append(f"Wide line: {NAME}, {worst}.")
    if without:
        parts.append(
            f"No noise control for {listed(without)}, so the harm that random noise would do is not known. "
            "Add the attack random_noise."
        )
    hasty = list(
        dict.fromkeys(
            c.name for c in curves if what == "wer" and _hasty(c.cell) and not c.noise and c.name != NAME
        )
    )
    if hasty:
        parts.append(
            f"{listed(hasty)} stopped at the first wrong word (early_stop): a search that continues does "
            "more harm."
        )
    return " ".join(parts) + samples


def _hasty(cell: CellResult) -> bool:
    return cell.attack_spec.get("early_stop") is True and not cell.targeted
