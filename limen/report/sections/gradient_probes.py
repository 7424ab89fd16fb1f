"""What the probes of each model's gradients reached, and the attack loss on the way."""

from collections.abc import Sequence

from markupsafe import Markup

from limen.report.blocks import Block, Figure, Group, Heading, Prose, Row, Section, Table
from limen.report.checks.probes import reached
from limen.report.formatting import fmt, place
from limen.report.run import CellResult, Run, number
from limen.report.svg.lines import Series, legend, line_chart

PROBES = {
    "clean": "no attack",
    "noise": "noise",
    "one_step": "one step",
    "many_steps": "many steps",
    "no_gradients": "no gradients",
    "undefended": "undefended",
    "transfer": "transfer",
    "anything_allowed": "anything allowed",
}
SHARES = {"zero_gradients": "zero", "broken_gradients": "not finite", "differs": "random"}
NOTE = (
    "Share of a few samples that are at the goal of the attack after each probe, under one goal and budget. "
    "Many steps along the gradient should do best, and all samples should reach the goal if anything is "
    "allowed. “Undefended” and “transfer” are attacks computed without the defence and on another net. The "
    "last columns are the shares of gradients that were zero and not finite, and of samples whose output "
    "differs when the model is evaluated again."
)


def gradient_probes(run: Run) -> Section | None:
    cells = [c for c in run.audits if isinstance(c.result.get("probes"), dict)]
    if not cells:
        return None
    blocks: list[Block] = [Prose(NOTE), _table(cells), *_figures(cells)]
    return Section("Gradient probes", blocks, order=210)


def _table(cells: Sequence[CellResult]) -> Table:
    probes = [k for k in PROBES if any(k in c.result["probes"] for c in cells)]
    headings = [Heading("Model", number=False), Heading("n")]
    headings += [Heading(text) for text in [*(PROBES[k] for k in probes), *SHARES.values()]]
    rows = []
    for cell in cells:
        values = [fmt(reached(cell, k), "%") for k in probes] + [fmt(cell.result.get(k), "%") for k in SHARES]
        rows.append(Row([place(cell), str(cell.result["n"]), *values]))
    return Table("", headings, [Group(rows)], label="Probes of the gradients", style="dense")


def _figures(cells: Sequence[CellResult]) -> list[Figure]:
    """Loss against steps, one panel per net and defence."""
    panels: list[tuple[str, Markup]] = []
    for cell in cells:
        loss = [number(v) for v in cell.result["loss"]]
        known = [v for v in loss if v is not None]
        if not known:
            continue
        room = 0.05 * (max(known) - min(known)) or 1.0
        chart = line_chart(
            [Series("mean attack loss", [float(s) for s in cell.result["steps"]], loss, slot=0)],
            title=f"Attack loss: {place(cell)}",
            x_label="gradient steps",
            y_label="attack loss",
            y_range=(min(known) - room, max(known) + room),
            y_text=fmt,
            log=False,
        )
        panels.append((place(cell), chart))
    caption = (
        "The search maximises this loss. It should rise and stay high; a fall is a sign of masked gradients."
    )
    return (
        [Figure("Attack loss against steps", caption, panels, legend([("mean attack loss", 0)]))]
        if panels
        else []
    )
