"""Clean WER, WER to the target, SNR and success of targeted attacks: table 5.1 of Olivier 2023."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from limen.report.blocks import Section, plain_table
from limen.report.formatting import DASH, fmt, interval, variable_text
from limen.report.parts import Part
from limen.report.run import CellResult
from limen.report.transcripts import error_rate, how_compared, targets


def targeted_attacks(part: Part) -> Section | None:
    cells = part.cells
    aimed = [c for c in cells if c.output == "transcript" and c.targeted and not c.curve and not c.victims]
    known = {c.id: _wer_to_target(c) for c in aimed}
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
                fmt(_clean_wer(cells, cell), "%"),
                fmt(known[cell.id], "%"),
                fmt(cell.median("snr_db"), "1f"),
                fmt(median(won) if won else None, "1f"),
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
            "word error rate under attack, against the target: smaller is a stronger attack",
        ),
        ("SNR, dB, median", "over all samples; larger is quieter"),
        ("SNR of successes, median", "over the samples on which the attack succeeded"),
        (
            "Success",
            "share of the samples that are transcribed as exactly the target and were not before, with its "
            "95 % interval",
        ),
        ("n", "samples"),
    ]
    caption = (
        "Word error rates are all errors over all words of the set; success is judged on the clip as stored."
    )
    return Section(blocks=[plain_table("Targeted attacks", headings, rows, caption, names=3)], order=70)


def _clean_wer(cells: Sequence[CellResult], like: CellResult) -> float | None:
    """Word error rate of the same net behind the same defence, without an attack."""
    bare = next(
        (
            c
            for c in cells
            if (c.net, c.defense, c.attack) == (like.net, like.defense, "none") and c.value("wer") is not None
        ),
        None,
    )
    return like.value("clean_wer") if bare is None else bare.value("wer")


def _share(stat: dict[str, Any]) -> str:
    """A share with its interval, and its two counts."""
    found = f"{fmt(stat['mean'], '%')} ({interval(stat['low'], stat['high'])}), " if stat["n"] else ""
    return f"{found}{fmt(stat['count'], 'n')} of {fmt(stat['n'], 'n')}"


def _wer_to_target(cell: CellResult) -> float | None:
    """Error rate of the set against the target texts; None if there are none."""
    rows = cell.rows
    pairs = [
        (t, str(h or ""))
        for t, h in zip(targets(cell), rows.get("adversarial_prediction", []), strict=False)
        if t is not None
    ]
    return error_rate([t for t, _ in pairs], [h for _, h in pairs], how_compared(cell)) if pairs else None
