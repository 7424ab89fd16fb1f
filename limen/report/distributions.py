"""How the distortion spreads over attacks, classes and parts of a clip, and who is mistaken for whom."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from limen.report.figures import Figure, facet_name, facets
from limen.report.formatting import fmt, place
from limen.report.run import CellResult, number
from limen.report.svg.boxes import box_plot, heat_map
from limen.report.svg.lines import legend
from limen.report.tables import worst

PARTS = (("", "whole clip"), ("_vocal", "vocal part"), ("_background", "background"))
ACCEPTABLE = (-32.0, "−32 dB")
MOST_CLASSES = 20


def details(cells: Sequence[CellResult]) -> list[Figure]:
    """The charts that stand after the examples."""
    return [*distortion(cells), *confusion(cells)]


def distortion(cells: Sequence[CellResult]) -> list[Figure]:
    """Box plots of dB by attack, then by class, for the whole clip, vocal part and background: figures 3 and
    4 of the same paper."""
    measured = [c for c in cells if not c.curve and c.attack != "none" and "peak_db" in c.columns]
    out = []
    for stem, words in (("peak_db", "Peak of the change, dB"), ("mean_db", "Mean of the change, dB")):
        parts = [
            (stem + suffix, name)
            for suffix, name in PARTS
            if any(stem + suffix in c.columns for c in measured)
        ]
        if not parts:
            continue
        names = [name for _, name in parts]
        key = legend([(n, k) for k, n in enumerate(names)], boxes=True)
        rule = ACCEPTABLE if stem == "peak_db" else None
        rest = (
            " Boxes hold half of the samples, the line is the median, whiskers reach the last sample "
            "within 1.5 box lengths."
        )
        known = " Dashed: −32 dB; a peak below it is usually called acceptable." if rule else ""
        panels: list[tuple[str, Markup]] = []
        values = [v for c in measured for column, _ in parts for v in _finite(c.values(column))]
        for net, defense in facets(measured):
            here = [c for c in measured if (c.net, c.defense) == (net, defense)]
            groups = _boxes(
                {_attack_name(c): [_finite(c.values(column)) for column, _ in parts] for c in here}
            )
            if groups:
                name, size = (
                    facet_name(net, defense),
                    {"width": max(420, 70 + 75 * len(groups)), "height": 260},
                )
                title, span = f"{words} by attack: {name}", (min(values), max(values))
                panels.append(
                    (name, box_plot(groups, names, title=title, y_label=words, rule=rule, span=span, **size))
                )
        if panels:
            out.append(
                Figure(
                    f"{words.split(',')[0]} by attack",
                    f"Relative to the clip, all samples.{known}{rest}",
                    panels,
                    key,
                    max(len(c.variable) for c in measured) > 0,
                    stem != "peak_db",
                )
            )
        panels = []
        for cell in _strongest(measured):
            labels = [str(v) for v in cell.rows.get("label", [])]
            order = [c for c in cell.classes if c in set(labels)] or sorted(set(labels))
            if cell.output == "transcript" or not 1 < len(order) <= MOST_CLASSES:
                continue
            columns = [cell.values(column) for column, _ in parts]
            groups = _boxes(
                {
                    name: [
                        _finite([v for v, w in zip(values, labels, strict=True) if w == name])
                        for values in columns
                    ]
                    for name in order
                }
            )
            if groups:
                panels.append(
                    (
                        place(cell),
                        box_plot(
                            groups, names, title=f"{words} by class: {place(cell)}", y_label=words, rule=rule
                        ),
                    )
                )
        if panels:
            out.append(
                Figure(
                    f"{words.split(',')[0]} by class",
                    f"For the strongest attack and every universal one.{known}{rest}",
                    panels,
                    key,
                    True,
                    stem != "peak_db",
                )
            )
    return out


def _attack_name(cell: CellResult) -> str:
    return cell.attack + (
        f" {', '.join(fmt(v) if number(v) is not None else str(v) for v in cell.variable.values())}"
        if cell.variable
        else ""
    )


def _strongest(cells: Sequence[CellResult]) -> list[CellResult]:
    """Per net, undefended where possible: the cell in which the model does worst, and the universal
    attacks."""
    out: list[CellResult] = []
    for net in dict.fromkeys(c.net for c in cells):
        mine = [c for c in cells if c.net == net]
        bare = [c for c in mine if c.defense == "none"] or mine
        top = worst(bare)
        out += [c for c in bare if c is top or (c.universal and not c.variable)]
    return out


def _finite(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v)]


def _boxes(groups: dict[str, list[list[float]]]) -> list[tuple[str, list[list[float]]]]:
    return [(name, boxes) for name, boxes in groups.items() if any(boxes)]


def confusion(cells: Sequence[CellResult]) -> list[Figure]:
    """What the model says of each class under its strongest attack."""
    panels = []
    for net in dict.fromkeys(c.net for c in cells):
        mine = [c for c in cells if c.net == net and c.output == "class" and not c.curve]
        cell = worst([c for c in mine if c.defense == "none"] or mine)
        if cell is None or not 1 < len(cell.classes) <= MOST_CLASSES:
            continue
        counts = {(a, b): 0 for a in cell.classes for b in cell.classes}
        for label, said in zip(
            cell.rows.get("label", []), cell.rows.get("adversarial_prediction", []), strict=False
        ):
            if (str(label), str(said)) in counts:
                counts[str(label), str(said)] += 1
        rows = [a for a in cell.classes if any(counts[a, b] for b in cell.classes)]
        if rows:
            values: list[list[float | None]] = [[counts[a, b] or None for b in cell.classes] for a in rows]
            chart = heat_map(
                rows,
                cell.classes,
                values,
                title=f"Answers by class: {place(cell)}",
                row_label="truth",
                column_label="answer",
                text=lambda v: fmt(v, "n"),
                top_value=float(max(counts.values())),
                side=34,
            )
            panels.append((place(cell), chart))
    return (
        [
            Figure(
                "Who is mistaken for whom",
                "Number of samples of each class (rows) by the model’s answer (columns), under the attack "
                "that does most harm.",
                panels,
                Markup(""),
            )
        ]
        if panels
        else []
    )
