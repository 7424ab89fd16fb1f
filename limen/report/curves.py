"""Accuracy or word error rate against the size of the change, with what noise of the same size does beside
every curve."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limen.report.figures import AXES, Figure, facet_name
from limen.report.formatting import fmt, listed
from limen.report.run import CellResult, number
from limen.report.svg.lines import ALL, CONTROL, Series, legend, line_chart
from limen.report.transcripts import error_rate, how_compared
from limen.report.worst_case import NAME, Together, along

RESULT = {"wer": ("wer", "wer_low", "wer_high"), "accuracy": ("accuracy", "low", "high")}
"""Keys of a curve's values and of their interval."""
WORDS = {"wer": "Word error rate", "accuracy": "Accuracy"}
NO_CONTROL = "No noise control"
"""How the caption begins to say that the comparison with noise is missing."""

Numbers = Sequence[float | None]
Panel = Callable[[str, list[Series], float | None], tuple[str, Markup]]
"""Heading, lines and clean rate -> heading and chart."""


@dataclass(frozen=True)
class Curve:
    cell: CellResult
    x: Sequence[float]
    y: Numbers
    low: Numbers
    high: Numbers
    name: str
    """The attack, or what the control calls itself."""
    noise: bool = False

    @property
    def place(self) -> tuple[str, str]:
        return self.cell.net, self.cell.defense


def measured(cell: CellResult) -> str:
    """What a curve of the cell shows: the word error rate of a recogniser, the accuracy of a classifier."""
    has = cell.curve if cell.curve else cell.columns
    return "wer" if cell.output == "transcript" and "wer" in has else "accuracy"


def constrained(cells: Sequence[CellResult], colours: dict[str, int]) -> list[Figure]:
    """Curves of the task constrained_accuracy."""
    out = []
    for constraint, what in dict.fromkeys((c.curve["constraint"], measured(c)) for c in cells if c.curve):
        group = [c for c in cells if c.curve and (c.curve["constraint"], measured(c)) == (constraint, what)]
        whole = [(u, u.column("wer" if what == "wer" else "correct")) for u in along(group)]
        found = [
            Curve(u.cells[0], u.values, *columns, NAME) for u, columns in whole if None not in columns[0]
        ]
        found += [curve for c in group for curve in _of_result(c, what)]
        samples = (
            "" if len({c.n for c in group}) > 1 else f" n = {fmt(group[0].n, 'n')} samples at each value."
        )
        out += _figures(found, what, str(constraint), AXES.get(constraint, str(constraint)), colours, samples)
    return out


def _of_result(cell: CellResult, what: str) -> list[Curve]:
    """The curve of a cell, and of the noise its task tried beside the attack."""
    out = []
    control = None if cell.control else cell.curve.get("control")
    for result, name, noise in (
        (cell.curve, cell.attack, cell.control),
        (control, _noise_name(control), True),
    ):
        if not isinstance(result, dict) or not result.get(RESULT[what][0]):
            continue
        order = sorted(range(len(cell.curve["values"])), key=lambda k: float(cell.curve["values"][k]))
        y, low, high = (
            [number((result.get(key) or {k: None for k in order})[k]) for k in order] for key in RESULT[what]
        )
        out.append(Curve(cell, [float(cell.curve["values"][k]) for k in order], y, low, high, name, noise))
    return out


def _noise_name(control: object) -> str:
    return str(control.get("name") or "noise") if isinstance(control, dict) else "noise"


def sweeps(
    cells: Sequence[CellResult], colours: dict[str, int], unions: Sequence[Together] = ()
) -> list[Figure]:
    """Curves through the cells of a sweep, and through all attacks together."""
    out = []
    rated = [c for c in cells if not c.curve and not c.victims and len(c.variable) == 1]
    for key in dict.fromkeys(k for c in rated for k in c.variable):
        group = [
            c
            for c in rated
            if key in c.variable and number(c.variable[key]) is not None and _rate(c)[0] is not None
        ]
        if len({c.variable[key] for c in group}) < 2:
            continue
        found = _of_unions([u for u in unions if tuple(u.variable) == (key,)], key, measured(group[0]))
        for who in dict.fromkeys((c.net, c.defense, c.attack) for c in group):
            mine = sorted(
                (c for c in group if (c.net, c.defense, c.attack) == who),
                key=lambda c: float(c.variable[key]),
            )
            mean, low, high = zip(*(_rate(c) for c in mine), strict=True)
            found.append(
                Curve(
                    mine[0], [float(c.variable[key]) for c in mine], mean, low, high, who[2], mine[0].control
                )
            )
        option = key.rsplit(".", 1)[-1]
        bare = {
            (c.net, c.defense): rate
            for c in cells
            if c.attack == "none" and (rate := _rate(c)[0]) is not None
        }
        out += _figures(found, measured(group[0]), option, AXES.get(option, key), colours, "", bare)
    return out


def _of_unions(unions: Sequence[Together], key: str, what: str) -> list[Curve]:
    out = []
    for place in dict.fromkeys((u.net, u.defense) for u in unions):
        mine = [u for u in unions if (u.net, u.defense) == place and number(u.variable[key]) is not None]
        mine.sort(key=lambda u: float(u.variable[key]))
        mean, low, high = (
            zip(*(u.stat("wer" if what == "wer" else "correct") for u in mine), strict=True)
            if mine
            else ((), (), ())
        )
        if mine and None not in mean:
            out.append(Curve(mine[0].cells[0], [float(u.variable[key]) for u in mine], mean, low, high, NAME))
    return out


def _rate(cell: CellResult) -> tuple[float | None, float | None, float | None]:
    return cell.stat("wer" if measured(cell) == "wer" else "correct")


def _figures(
    curves: list[Curve],
    what: str,
    option: str,
    axis: str,
    colours: dict[str, int],
    samples: str,
    clean: dict[tuple[str, str], float] | None = None,
) -> list[Figure]:
    """One panel per net and defence; where several nets met the same attack, one panel per attack too."""
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
    """Where the axis of error rates ends: at 100 %, 125 %, or a multiple of 50 %."""
    return next((top for top in (1.0, 1.25) if reach <= top + 0.02), math.ceil(2 * reach) / 2)


def _compared(curves: list[Curve], title: str, panel: Panel) -> list[Figure]:
    """Nets against each other: one panel per attack, one colour per net, its noise control dashed in the same
    colour."""
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
            f"{title}: models side by side",
            "Dashed: noise control of the model of the same colour.",
            panels,
            key,
        )
    ]


def _series(curve: Curve, slot: int, dashed: bool = False, name: str = "") -> Series:
    return Series(name or curve.name, curve.x, curve.y, curve.low, curve.high, slot, dashed)


def _different(curves: list[Curve]) -> list[Curve]:
    """Every attack brings the same noise along; it is drawn once."""
    return list(
        {tuple(None if v is None else round(v, 6) for v in c.y): c for c in reversed(curves)}.values()
    )[::-1]


def _clean(
    place: tuple[str, str], curves: list[Curve], what: str, known: dict[tuple[str, str], float]
) -> float | None:
    """The rate on clean samples: of the cell without an attack, of the curve's own columns, or of the rows'
    clean answers."""
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
        colour = " (in the colour of the attack whose size it has)" if apart else ""
        parts.append(f"Dashed curve: noise of the same size that knows nothing about the model{colour}.")
    if any(c.name == NAME for c in curves):
        worst = (
            "the most errors any attack made in each clip"
            if what == "wer"
            else "right only where no attack made the answer wrong"
        )
        worst += "; attacks of smaller budgets count too"
        parts.append(f"Broad line: {NAME}, {worst}.")
    if without:
        parts.append(
            f"{NO_CONTROL} for {listed(without)}: nothing here says how much of this any noise would do. "
            "Add the attack random_noise."
        )
    hasty = list(
        dict.fromkeys(
            c.name for c in curves if what == "wer" and _hasty(c.cell) and not c.noise and c.name != NAME
        )
    )
    if hasty:
        parts.append(
            f"{listed(hasty)} stopped at the first wrong word (early_stop): a search that goes on does more "
            "harm."
        )
    return " ".join(parts) + samples


def _hasty(cell: CellResult) -> bool:
    return cell.attack_spec.get("early_stop") is True and not cell.targeted
