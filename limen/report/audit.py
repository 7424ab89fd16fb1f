"""What the probes of the task audit say about a model's gradients: comparisons for the checks, and the loss
along the way as a figure."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from limen.report.evidence import DEAD_SHARE, Evidence, beats
from limen.report.figures import Figure
from limen.report.formatting import fmt, listed, place
from limen.report.run import CellResult, number
from limen.report.svg.lines import Series, legend, line_chart

EXPLODING = 1e6
"""A gradient so many times larger than the median one."""
PROBES = {
    "clean": "no attack",
    "noise": "noise",
    "one_step": "one step",
    "many_steps": "many steps",
    "no_gradients": "no gradients",
    "undefended": "bare net’s",
    "transfer": "other net’s",
    "anything_allowed": "anything allowed",
}
GIVEN = {"zero_gradients": "zero", "broken_gradients": "not finite", "differs": "random"}
FALL = 0.05
"""Share of the loss gained on the way that may be lost again before the end."""


def noise(cells: Sequence[CellResult]) -> Evidence:
    """Noise that does harm, and as much as the search. Samples that were wrong before say nothing about
    either."""
    compared, flags = 0, []
    for cell in cells:
        before, a, b = (_probe(cell, name) or 0.0 for name in ("clean", "noise", "many_steps"))
        compared += 1
        if beats(a, before, cell.result["n"], 0.0) and not beats(b, a, cell.result["n"], 0.0):
            steps = f"{cell.result['steps'][-1]} steps with {fmt(b, '%')}"
            flags.append(
                f"{place(cell)}: noise of the same budget ends with {fmt(a, '%')} at the goal, {steps}."
            )
    return compared, flags


def one_step(cells: Sequence[CellResult]) -> Evidence:
    return _beaten(cells, "one_step", "one step ends with {a} at the goal, {steps} steps only with {b}.")


def no_gradients(cells: Sequence[CellResult]) -> Evidence:
    found = [
        _beaten(
            cells,
            "no_gradients",
            "a search without gradients ends with {a} at the goal, {steps} steps along the gradient only "
            "with {b}.",
        ),
        _beaten(
            cells,
            "undefended",
            "the attack of the undefended net ends with {a} at the goal, that of the defended one only with "
            "{b}.",
        ),
        _beaten(
            cells,
            "transfer",
            "the attack of another net ({others}) ends with {a} at the goal, its own only with {b}.",
        ),
    ]
    return sum(n for n, _ in found), [flag for _, flags in found for flag in flags]


def everything_allowed(cells: Sequence[CellResult]) -> Evidence:
    flags = [
        f"{place(c)}: {fmt(_probe(c, 'anything_allowed'), '%')} of the samples reached the goal."
        for c in cells
        if (_probe(c, "anything_allowed") or 0) < 1
    ]
    return len(cells), flags


def gradients(cells: Sequence[CellResult]) -> Evidence:
    flags = []
    for cell in cells:
        for name, words in (("zero_gradients", "zero"), ("broken_gradients", "not finite (NaN or infinite)")):
            share = float(cell.result.get(name) or 0)
            # a gradient that vanishes now and then is lost on the way; one that is no number is a fault
            # wherever it stands
            if share > (DEAD_SHARE if name == "zero_gradients" else 0):
                flags.append(f"{place(cell)}: {fmt(share, '%')} of the gradients were {words}.")
        norms = cell.result["gradient_norms"]
        if norms and norms[2] > EXPLODING * norms[1]:
            flags.append(
                f"{place(cell)}: gradients explode: the largest is {fmt(norms[2] / norms[1])} times the "
                "median one."
            )
    return len(cells), flags


def loss_rises(cells: Sequence[CellResult]) -> Evidence:
    flags = []
    for cell in cells:
        known = [
            (step, loss)
            for step, loss in zip(cell.result["steps"], cell.result["loss"], strict=True)
            if number(loss) is not None
        ]
        if len(known) < 2:
            continue
        steps, loss = [step for step, _ in known], [loss for _, loss in known]
        best = max(loss)
        if best - loss[0] <= 0:
            flags.append(
                f"{place(cell)}: the loss never rises above the {fmt(loss[0])} of the clean samples."
            )
        elif best - loss[-1] > FALL * (best - loss[0]):
            at = steps[loss.index(best)]
            flags.append(
                f"{place(cell)}: the loss is {fmt(best)} after {at} steps, but {fmt(loss[-1])} after "
                f"{steps[-1]}."
            )
    return len(cells), flags


def random_without_draws(cells: Sequence[CellResult]) -> Evidence:
    """Models that call themselves random, and those that only turn out to be when they are asked twice."""
    flags = []
    for cell in cells:
        if cell.result["random"] and cell.result["draws"] <= 1:
            flags.append(f"{place(cell)}: each gradient was taken from one random draw.")
        elif not cell.result["random"] and (differs := float(cell.result.get("differs") or 0)):
            words = (
                f"asked twice, it answers otherwise on {fmt(differs, '%')} of the samples, but does not "
                "call itself random."
            )
            flags.append(f"{place(cell)}: {words}")
    return len(cells), flags


def figures(cells: Sequence[CellResult]) -> list[Figure]:
    """Loss against steps, one panel per net and defence."""
    panels: list[tuple[str, Markup]] = []
    for cell in cells:
        loss = [number(v) for v in cell.result["loss"]]
        known = [v for v in loss if v is not None]
        if not known:
            continue
        low, high = min(known), max(known)
        room = 0.05 * (high - low) or 1.0
        chart = line_chart(
            [Series("mean loss", [float(s) for s in cell.result["steps"]], loss, slot=0)],
            title=f"Loss: {place(cell)}",
            x_label="gradient steps",
            y_label="loss of the attacker",
            y_range=(low - room, high + room),
            y_text=fmt,
            log=False,
        )
        panels.append((place(cell), chart))
    words = (
        "What the attacker raises, on the way from the clean samples: it should rise and stay high. A "
        "fall hints at hidden gradients."
    )
    return [Figure("Loss against steps", words, panels, legend([("mean loss", 0)]))] if panels else []


def table(cells: Sequence[CellResult]) -> dict[str, Any] | None:
    """Share of the samples at the goal after each probe, one row per net and defence."""
    columns = [k for k in PROBES if any(k in c.result["probes"] for c in cells)]
    values = lambda c: [fmt(_probe(c, k), "%") for k in columns] + [fmt(c.result.get(k), "%") for k in GIVEN]
    rows = [{"place": place(c), "n": c.result["n"], "values": values(c)} for c in cells]
    return {"columns": [PROBES[k] for k in columns] + list(GIVEN.values()), "rows": rows} if rows else None


def _probe(cell: CellResult, name: str) -> float | None:
    value = cell.result["probes"].get(name)
    return None if value is None else float(value)


def _beaten(cells: Sequence[CellResult], probe: str, words: str) -> Evidence:
    """Where a probe that should do worse than many gradient steps does better; one sample more is chance."""
    compared, flags = 0, []
    for cell in cells:
        a, b, n = _probe(cell, probe), _probe(cell, "many_steps"), cell.result["n"]
        if a is None or b is None:
            continue
        compared += 1
        if beats(a, b, n):
            others = listed([str(name) for name in cell.result.get("others") or []])
            flags.append(
                f"{place(cell)}: "
                + words.format(a=fmt(a, "%"), b=fmt(b, "%"), steps=cell.result["steps"][-1], others=others)
            )
    return compared, flags
