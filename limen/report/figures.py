"""What every figure shares, and the curves of universal perturbations and of training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from limen.report.formatting import fmt, place
from limen.report.run import CellResult, number
from limen.report.svg.lines import CONTROL, Series, legend, line_chart

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


def slots(cells: Sequence[CellResult]) -> dict[str, int]:
    """Each attack keeps its colour on the whole page; the noise control is grey."""
    names = dict.fromkeys(c.attack for c in cells if c.attack != "none" and not c.control)
    return {name: k for k, name in enumerate(names)} | {c.attack: CONTROL for c in cells if c.control}


def facets(cells: Sequence[CellResult]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((c.net, c.defense) for c in cells))


def facet_name(net: str, defense: str) -> str:
    return f"{net}, {'undefended' if defense == 'none' else defense}"


def fooling(cells: Sequence[CellResult]) -> list[Figure]:
    """Share of each class that changes its answer as the perturbation grows: figure 2 of Vadillo and Santana
    2021."""
    out = []
    for cell in cells:
        curves = {
            name: (c.get("values"), c.get("fooling_rate"))
            for name, c in (cell.result.get("scaled") or {}).items()
        }
        if cell.curve.get("by_class") and cell.universal:
            curves[cell.curve["constraint"]] = (cell.curve["values"], cell.curve["by_class"])
        curves = {k: v for k, v in curves.items() if v[0] and v[1]}
        if not curves:
            continue
        names = list(next(iter(curves.values()))[1])
        panels = []
        for name, (values, rates) in curves.items():
            series = [
                Series(label, values, rate, slot=names.index(label) if label in names else 0)
                for label, rate in rates.items()
            ]
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
                "Share of the samples of each class whose answer changes when the one perturbation is made "
                "larger or smaller.",
                panels,
                legend([(n, k) for k, n in enumerate(names)]),
            )
        )
    return out


def training(cells: Sequence[CellResult]) -> list[Figure]:
    """History of the task train: every quantity that was written down after each epoch."""
    panels: list[tuple[str, Markup]] = []
    for cell in cells:
        history: list[dict[str, Any]] = cell.result.get("history") or []
        if not isinstance(history, list) or len(history) < 2:
            continue
        names = [
            k
            for k in history[0]
            if k not in ("epoch", "seconds", "rate", "lr")
            and all(number(row.get(k)) is not None for row in history)
        ]
        for shares in (True, False):
            chosen = [k for k in names if ("accuracy" in k) == shares]
            series = [
                Series(k, list(range(1, len(history) + 1)), [float(row[k]) for row in history], slot=j)
                for j, k in enumerate(chosen)
            ]
            if series:
                top = 1.0 if shares else max(v for s in series for v in s.y if v is not None) * 1.05 or 1.0
                words = "Accuracy, %" if shares else "Loss"
                chart = (
                    line_chart(series, title=f"{words}: {cell.net}", x_label="epoch", y_label=words)
                    if shares
                    else line_chart(
                        series,
                        title=f"{words}: {cell.net}",
                        x_label="epoch",
                        y_label=words,
                        y_range=(0.0, top),
                        y_text=fmt,
                    )
                )
                panels.append((f"{cell.net}: {', '.join(chosen)}", chart))
    return [Figure("Training", "One point per epoch.", panels, Markup(""))] if panels else []
