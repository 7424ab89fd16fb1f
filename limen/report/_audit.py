"""What the probes of the task audit say about a model's gradients: comparisons for the checks, and the loss along the way as a figure."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from limen.report._evidence import DEAD_SHARE, RISE, Evidence
from limen.report._figures import Figure
from limen.report._run import Cell
from limen.report._svg import Series, legend, line_chart
from limen.report._words import fmt, place

EXPLODING = 1e6
"""A gradient so many times larger than the median one."""
FALL = 0.05
"""Share of the loss gained on the way that may be lost again before the end."""


def noise(cells: Sequence[Cell]) -> Evidence:
    return _beaten(cells, "noise", "noise of the same budget fools {a}, {steps} steps only {b}.", margin=0.0)


def one_step(cells: Sequence[Cell]) -> Evidence:
    return _beaten(cells, "one_step", "one step fools {a}, {steps} steps only {b}.")


def no_gradients(cells: Sequence[Cell]) -> Evidence:
    black = _beaten(cells, "no_gradients", "a search without gradients fools {a}, {steps} steps along the gradient only {b}.")
    other = _beaten(cells, "undefended", "the attack of the undefended net fools {a}, that of the defended one only {b}.")
    return black[0] + other[0], black[1] + other[1]


def everything_allowed(cells: Sequence[Cell]) -> Evidence:
    flags = [f"{place(c)}: {fmt(_probe(c, 'anything_allowed'), '%')} of the samples were fooled." for c in cells
             if (_probe(c, "anything_allowed") or 0) < 1]  # fmt: skip
    return len(cells), flags


def gradients(cells: Sequence[Cell]) -> Evidence:
    flags = []
    for cell in cells:
        if cell.result["dead"] > DEAD_SHARE:
            flags.append(f"{place(cell)}: {fmt(cell.result['dead'], '%')} of the gradients were zero or not finite.")
        norms = cell.result["gradient_norms"]
        if norms and norms[2] > EXPLODING * norms[1]:
            flags.append(f"{place(cell)}: the largest gradient is {fmt(norms[2] / norms[1])} times the median one.")
    return len(cells), flags


def loss_rises(cells: Sequence[Cell]) -> Evidence:
    flags = []
    for cell in cells:
        loss, steps = cell.result["loss"], cell.result["steps"]
        best = max(loss)
        if best - loss[0] <= 0:
            flags.append(f"{place(cell)}: the loss never rises above the {fmt(loss[0])} of the clean samples.")
        elif best - loss[-1] > FALL * (best - loss[0]):
            at = steps[loss.index(best)]
            flags.append(f"{place(cell)}: the loss is {fmt(best)} after {at} steps, but {fmt(loss[-1])} after {steps[-1]}.")
    return len(cells), flags


def random_without_draws(cells: Sequence[Cell]) -> Evidence:
    chance = [c for c in cells if c.result["random"]]
    return len(chance), [f"{place(c)}: each gradient was taken from one random draw." for c in chance if c.result["draws"] <= 1]


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """Loss against steps, one panel per net and defence."""
    panels: list[tuple[str, Markup]] = []
    for cell in cells:
        loss = [float(v) for v in cell.result["loss"]]
        low, high = min(loss), max(loss)
        room = 0.05 * (high - low) or 1.0
        chart = line_chart([Series("mean loss", [float(s) for s in cell.result["steps"]], loss, slot=0)], title=f"Loss: {place(cell)}",
                           x_label="gradient steps", y_label="loss of the attacker", y_range=(low - room, high + room), y_text=fmt,
                           log=False)  # fmt: skip
        panels.append((place(cell), chart))
    words = "What the attacker raises, on the way from the clean samples: it should rise and stay high. A fall hints at hidden gradients."
    return [Figure("Loss against steps", words, panels, legend([("mean loss", 0)]))] if panels else []


def table(cells: Sequence[Cell]) -> dict[str, Any] | None:
    """Who was fooled by which probe, one row per net and defence."""
    names = {"noise": "noise", "one_step": "one step", "many_steps": "many steps", "no_gradients": "no gradients",
             "undefended": "of the undefended net", "anything_allowed": "anything allowed"}  # fmt: skip
    columns = [k for k in names if any(k in c.result["probes"] for c in cells)]
    rows = [{"place": place(c), "n": c.result["n"], "values": [fmt(_probe(c, k), "%") for k in columns]} for c in cells]
    return {"columns": [names[k] for k in columns], "rows": rows} if rows else None


def _probe(cell: Cell, name: str) -> float | None:
    value = cell.result["probes"].get(name)
    return None if value is None else float(value)


def _beaten(cells: Sequence[Cell], probe: str, words: str, margin: float = RISE) -> Evidence:
    """Where a probe that should do worse than many gradient steps does better; one sample more is chance."""
    compared, flags = 0, []
    for cell in cells:
        a, b, n = _probe(cell, probe), _probe(cell, "many_steps"), cell.result["n"]
        if a is None or b is None:
            continue
        compared += 1
        if a - b > margin and (a - b) * n > 1.5:
            flags.append(f"{place(cell)}: " + words.format(a=fmt(a, "%"), b=fmt(b, "%"), steps=cell.result["steps"][-1]))
    return compared, flags
