"""Word error rate against the number of parameters: table 5.2 and figure 5.2 of Olivier 2023."""

from limen.report.blocks import Figure, Section, plain_table
from limen.report.formatting import DASH, fmt, variable_text
from limen.report.parts import Part
from limen.report.run import CellResult, number
from limen.report.svg.lines import CONTROL, Series, legend, line_chart


def model_sizes(part: Part) -> Section | None:
    cells, colours = part.rated, part.colours
    rated = [
        c
        for c in cells
        if c.output == "transcript"
        and c.defense == "none"
        and not c.curve
        and not c.victims
        and not c.targeted
    ]
    rated = [c for c in rated if number(c.meta.get("parameters")) and c.value("wer") is not None]
    nets = {
        c.net: float(c.meta["parameters"]) for c in sorted(rated, key=lambda c: float(c.meta["parameters"]))
    }
    if len(nets) < 2:
        return None
    columns = list(dict.fromkeys((c.attack, variable_text(c.variable)) for c in rated))
    found = {(c.net, c.attack, variable_text(c.variable)): c for c in rated}
    name = lambda attack, varied: "clean" if attack == "none" else attack + (f", {varied}" if varied else "")
    rows = [
        [net, millions(size)]
        + [fmt(found[net, *k].value("wer"), "%") if (net, *k) in found else DASH for k in columns]
        for net, size in nets.items()
    ]
    headings = [("Model", ""), ("Parameters", "")] + [(f"WER, {name(*k)}", "") for k in columns]
    series, slots = [], _slots(columns, found, colours)
    for column, slot in zip(columns, slots, strict=True):
        selected = [found[net, *column] for net in nets if (net, *column) in found]
        stats = [c.stat("wer") for c in selected]
        words = [
            f"{c.net}, {millions(nets[c.net])}: {fmt(s[0], '%')}"
            for c, s in zip(selected, stats, strict=True)
        ]
        mean, low, high = zip(*stats, strict=True)
        series.append(
            Series(
                name(*column),
                [nets[c.net] for c in selected],
                mean,
                low,
                high,
                slot,
                dashed=slot == CONTROL,
                points=words,
            )
        )
    top = max(
        [
            1.0,
            *(v for s in series for v in (s.high or []) if v is not None),
            *(v for s in series for v in s.y if v is not None),
        ]
    )
    chart = line_chart(
        series,
        title="Word error rate against parameters",
        x_label="parameters",
        y_label="Word error rate, %",
        y_range=(0.0, top),
        x_text=millions,
        log=True,
    )
    key = legend([(s.name, slot) for s, slot in zip(series, slots, strict=True)])
    caption = (
        "Undefended models under untargeted attacks, from small to large. Word error rates are all errors "
        "over all words."
    )
    table = plain_table("Models by size", headings, rows, caption)
    figure = Figure(
        "Word error rate against model size",
        "Shaded: 95 % intervals. One point per model.",
        [("undefended", chart)],
        key,
    )
    return Section(blocks=[table, figure], order=80)


def millions(parameters: float) -> str:
    """1 234 567 as 1.23 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g}\u202f{unit}"
    return f"{parameters:.0f}"


def _slots(
    columns: list[tuple[str, str]], found: dict[tuple[str, str, str], CellResult], colours: dict[str, int]
) -> list[int]:
    """Attacks keep their colour; clean samples and further values of a sweep take the next free ones; noise
    is grey."""
    noise = {c.attack for c in found.values() if c.control}
    free = max([k for k in colours.values() if k != CONTROL], default=-1)
    slots, used = [], set()
    for attack, _ in columns:
        slot = CONTROL if attack in noise else colours.get(attack)
        if slot is None or (slot != CONTROL and slot in used):
            free += 1
            slot = free
        used.add(slot)
        slots.append(slot)
    return slots
