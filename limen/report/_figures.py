"""Which curves a run deserves: accuracy against budget, fooling rate against size, training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from limen.report._run import Cell, number
from limen.report._svg import CONTROL, Series, legend, line_chart
from limen.report._words import fmt, place

AXES = {
    "dissimilarity": "dissimilarity (change relative to the sample)",
    "l2": "L2 norm of the change",
    "linf": "L∞ norm of the change",
    "peak_db": "peak of the change, dB",
    "snr_db": "SNR, dB (larger is quieter)",
    "eps": "budget eps",
    "count": "values changed",
}


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    panels: list[tuple[str, Markup]]
    """Heading of each panel, and the chart."""
    key: Markup
    wide: bool = False
    folded: bool = False


def slots(cells: Sequence[Cell]) -> dict[str, int]:
    """Each attack keeps its colour on the whole page; the noise control is grey."""
    names = dict.fromkeys(c.attack for c in cells if c.attack != "none" and not c.control)
    return {name: k for k, name in enumerate(names)} | {c.attack: CONTROL for c in cells if c.control}


def curves(cells: Sequence[Cell], colours: dict[str, int]) -> list[Figure]:
    """The charts of one task on one kind of sample that stand before its examples."""
    return [*training(cells), *sweeps(cells, colours), *constrained(cells, colours), *fooling(cells)]


def _clean(cells: Sequence[Cell], net: str, defense: str) -> tuple[float, str] | None:
    found = next((c.mean("correct") for c in cells if (c.net, c.defense, c.attack) == (net, defense, "none")), None)
    return None if found is None else (found, "clean")


def facets(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((c.net, c.defense) for c in cells))


def facet_name(net: str, defense: str) -> str:
    return f"{net}, {'undefended' if defense == 'none' else defense}"


def _key(cells: Sequence[Cell], colours: dict[str, int]) -> Markup:
    return legend([(name, colours.get(name, 0)) for name in dict.fromkeys(c.attack for c in cells if c.attack != "none")])


def sweeps(cells: Sequence[Cell], colours: dict[str, int]) -> list[Figure]:
    out = []
    for key in dict.fromkeys(k for c in cells for k in c.variable):
        group = [c for c in cells if tuple(c.variable) == (key,) and number(c.variable[key]) is not None and _rate(c)[0] is not None]
        if len({c.variable[key] for c in group}) < 2:
            continue
        what = "Word error rate" if group[0].output == "transcript" and "wer" in group[0].columns else "Accuracy"
        axis = AXES.get(key.rsplit(".", 1)[-1], key)
        top = max([1.0, *(_rate(c)[0] or 0.0 for c in group)])
        panels = []
        for net, defense in facets(group):
            series = []
            for attack in dict.fromkeys(c.attack for c in group if (c.net, c.defense) == (net, defense)):
                points = sorted(
                    (c for c in group if (c.net, c.defense, c.attack) == (net, defense, attack)), key=lambda c: float(c.variable[key])
                )
                mean, low, high = zip(*(_rate(c) for c in points), strict=True)
                series.append(Series(attack, [float(c.variable[key]) for c in points], mean, low, high, colours.get(attack, 0)))
            title = f"{what} against {key}: {facet_name(net, defense)}"
            rule = _clean(cells, net, defense) if what == "Accuracy" else None
            panels.append(
                (
                    facet_name(net, defense),
                    line_chart(series, title=title, x_label=axis, y_label=f"{what}, %", y_range=(0.0, top), rule=rule),
                )
            )
        out.append(
            Figure(
                f"{what} against {key.rsplit('.', 1)[-1]}",
                "Shaded: 95 % intervals. Dashed: accuracy on clean samples.",
                panels,
                _key(group, colours),
            )
        )
    return out


def _rate(cell: Cell) -> tuple[float | None, float | None, float | None]:
    return cell.stat("wer" if cell.output == "transcript" and "wer" in cell.columns else "correct")


def constrained(cells: Sequence[Cell], colours: dict[str, int]) -> list[Figure]:
    out = []
    for constraint in dict.fromkeys(c.curve["constraint"] for c in cells if c.curve):
        group = [c for c in cells if c.curve and c.curve["constraint"] == constraint]
        panels = []
        for net, defense in facets(group):
            series = [
                Series(c.attack, c.curve["values"], c.curve["accuracy"], c.curve.get("low"), c.curve.get("high"), colours.get(c.attack, 0))
                for c in group
                if (c.net, c.defense) == (net, defense)
            ]
            panels.append(
                (
                    facet_name(net, defense),
                    line_chart(
                        series,
                        title=f"Accuracy against {constraint}: {facet_name(net, defense)}",
                        x_label=AXES.get(constraint, constraint),
                        y_label="Accuracy, %",
                    ),
                )
            )
        samples = "" if len({c.n for c in group}) > 1 else f" n = {fmt(group[0].n, 'n')} samples at each value."
        out.append(Figure(f"Accuracy against {constraint}", f"Shaded: 95 % intervals.{samples}", panels, _key(group, colours)))
    return out


def fooling(cells: Sequence[Cell]) -> list[Figure]:
    """Share of each class that changes its answer as the perturbation grows: figure 2 of Vadillo and Santana 2021."""
    out = []
    for cell in cells:
        curves = {name: (c.get("values"), c.get("fooling_rate")) for name, c in (cell.result.get("scaled") or {}).items()}
        if cell.curve.get("by_class") and cell.universal:
            curves[cell.curve["constraint"]] = (cell.curve["values"], cell.curve["by_class"])
        curves = {k: v for k, v in curves.items() if v[0] and v[1]}
        if not curves:
            continue
        names = list(next(iter(curves.values()))[1])
        panels = []
        for name, (values, rates) in curves.items():
            series = [Series(label, values, rate, slot=names.index(label) if label in names else 0) for label, rate in rates.items()]
            panels.append(
                (
                    AXES.get(name, name),
                    line_chart(
                        series,
                        title=f"Fooling rate against {name}: {place(cell)}",
                        x_label=AXES.get(name, name),
                        y_label="Fooling rate, %",
                        x_rule=(-32.0, "−32 dB") if name == "peak_db" else None,
                    ),
                )
            )
        out.append(
            Figure(
                f"Fooling rate by class: {place(cell)}",
                "Share of the samples of each class whose answer changes when the one perturbation is made larger or smaller.",
                panels,
                legend([(n, k) for k, n in enumerate(names)]),
            )
        )
    return out


def training(cells: Sequence[Cell]) -> list[Figure]:
    """History of the task train: every quantity that was written down after each epoch."""
    panels: list[tuple[str, Markup]] = []
    for cell in cells:
        history: list[dict[str, Any]] = cell.result.get("history") or []
        if not isinstance(history, list) or len(history) < 2:
            continue
        names = [
            k for k in history[0] if k not in ("epoch", "seconds", "rate", "lr") and all(number(row.get(k)) is not None for row in history)
        ]
        for shares in (True, False):
            chosen = [k for k in names if ("accuracy" in k) == shares]
            series = [Series(k, list(range(1, len(history) + 1)), [float(row[k]) for row in history], slot=j) for j, k in enumerate(chosen)]
            if series:
                top = 1.0 if shares else max(v for s in series for v in s.y if v is not None) * 1.05 or 1.0
                words = "Accuracy, %" if shares else "Loss"
                chart = (
                    line_chart(series, title=f"{words}: {cell.net}", x_label="epoch", y_label=words)
                    if shares
                    else line_chart(series, title=f"{words}: {cell.net}", x_label="epoch", y_label=words, y_range=(0.0, top), y_text=fmt)
                )
                panels.append((f"{cell.net}: {', '.join(chosen)}", chart))
    return [Figure("Training", "One point per epoch.", panels, Markup(""))] if panels else []
