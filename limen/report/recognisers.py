"""What only recognisers have: targeted attacks as a table of their own, and models compared by size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from limen.report.figures import Figure
from limen.report.formatting import DASH, fmt, interval, variable_text
from limen.report.run import CellResult, number
from limen.report.svg.lines import CONTROL, Series, legend, line_chart
from limen.report.transcripts import error_rate, how_compared, targets


@dataclass(frozen=True)
class Table:
    """Plain rows of text under headings; the first `names` columns name the row, the rest are numbers."""

    title: str
    caption: str
    headings: list[tuple[str, str]]
    """Heading and what it means."""
    rows: list[list[str]]
    names: int = 1


def clean_wer(cells: Sequence[CellResult], like: CellResult) -> float | None:
    """Word error rate of the same net behind the same defence without an attack."""
    bare = next(
        (
            c
            for c in cells
            if (c.net, c.defense, c.attack) == (like.net, like.defense, "none") and c.value("wer") is not None
        ),
        None,
    )
    return like.value("clean_wer") if bare is None else bare.value("wer")


def targeted(cells: Sequence[CellResult]) -> Table | None:
    """Clean WER, WER to the target, SNR and success of every net: table 5.1 of Olivier 2023."""
    aimed = [c for c in cells if c.output == "transcript" and c.targeted and not c.curve and not c.victims]
    known = {c.id: wer_to_target(c) for c in aimed}
    aimed = [c for c in aimed if known[c.id] is not None]
    if not aimed:
        return None
    rows = []
    for cell in aimed:
        won = [
            s
            for s, ok in zip(cell.values("snr_db"), cell.rows.get("success", []), strict=False)
            if ok and s is not None
        ]
        rows.append(
            [
                cell.net,
                "none" if cell.defense == "none" else cell.defense,
                cell.attack + (f", {variable_text(cell.variable)}" if cell.variable else ""),
                fmt(clean_wer(cells, cell), "%"),
                fmt(known[cell.id], "%"),
                fmt(cell.median("snr_db"), "1f"),
                fmt(_median(won), "1f"),
                _share(cell.columns["success"]) if "success" in cell.columns else DASH,
                fmt(cell.n, "n"),
            ]
        )
    headings = [
        ("Model", ""),
        ("Defence", ""),
        ("Attack", ""),
        ("Clean WER", "word error rate on clean samples, against the truth"),
        (
            "WER to the target",
            "word error rate under attack, against the attacker’s sentence: smaller is a stronger attack",
        ),
        ("SNR, dB, median", "over all samples; larger is quieter"),
        ("SNR of successes, median", "over the samples on which the attack succeeded"),
        (
            "Success",
            "share of the samples on which exactly the target was heard and was not before, with its 95 % "
            "interval",
        ),
        ("n", "samples"),
    ]
    caption = (
        "Word error rates are those of the whole set, all errors over all words; success is judged on "
        "the clip as stored."
    )
    return Table("Targeted attacks", caption, headings, rows, names=3)


def _share(stat: dict[str, Any]) -> str:
    """A share with its interval, and how many of how many samples it is."""
    found = f"{fmt(stat['mean'], '%')} ({interval(stat['low'], stat['high'])}), " if stat["n"] else ""
    return f"{found}{fmt(stat['count'], 'n')} of {fmt(stat['n'], 'n')}"


def wer_to_target(cell: CellResult) -> float | None:
    """Error rate of the whole set against the attacker's sentences; None where there are none."""
    rows = cell.rows
    pairs = [
        (t, str(h or ""))
        for t, h in zip(targets(cell), rows.get("adversarial_prediction", []), strict=False)
        if t is not None
    ]
    return error_rate([t for t, _ in pairs], [h for _, h in pairs], how_compared(cell)) if pairs else None


def _median(values: list[float]) -> float | None:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (
        None
        if not ordered
        else ordered[middle]
        if len(ordered) % 2
        else (ordered[middle - 1] + ordered[middle]) / 2
    )


def millions(parameters: float) -> str:
    """1 234 567 -> 1.23 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g}\u202f{unit}"
    return f"{parameters:.0f}"


def sizes(cells: Sequence[CellResult], colours: dict[str, int]) -> tuple[Table, Figure] | None:
    """WER against the number of parameters, per attack: table 5.2 and figure 5.2 of Olivier 2023."""
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
        mine = [found[net, *column] for net in nets if (net, *column) in found]
        stats = [c.stat("wer") for c in mine]
        words = [
            f"{c.net}, {millions(nets[c.net])}: {fmt(s[0], '%')}" for c, s in zip(mine, stats, strict=True)
        ]
        mean, low, high = zip(*stats, strict=True)
        series.append(
            Series(
                name(*column),
                [nets[c.net] for c in mine],
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
    table = Table(
        "Models by size",
        "Undefended; untargeted attacks. Word error rates are all errors over all words. Models stand from "
        "small to large.",
        headings,
        rows,
    )
    return table, Figure(
        "Word error rate against model size",
        "Shaded: 95 % intervals. One point per model.",
        [("undefended", chart)],
        key,
    )


def _slots(
    columns: list[tuple[str, str]], found: dict[tuple[str, str, str], CellResult], colours: dict[str, int]
) -> list[int]:
    """Attacks keep their colour; clean samples and the several values of a sweep take the next free ones;
    noise is grey."""
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
