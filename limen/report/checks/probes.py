"""Comparisons between the probes of a model's gradients (cells of the task audit), and one sentence for each
that failed."""

from collections.abc import Sequence

from limen.report.checks.base import DEAD_SHARE, Evidence, beats
from limen.report.formatting import fmt, listed, place
from limen.report.run import CellResult, number

EXPLODING = 1e6
"""A gradient is too large if it is more than this number times the median one."""
FALL = 0.05
"""Share of the gained loss that may be lost again before the end."""


def noise(cells: Sequence[CellResult]) -> Evidence:
    """Noise that does as much harm as the search. Samples that were wrong before do not count for either."""
    compared, flags = 0, []
    for cell in cells:
        before, a, b = (reached(cell, name) or 0.0 for name in ("clean", "noise", "many_steps"))
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
        f"{place(c)}: {fmt(reached(c, 'anything_allowed'), '%')} of the samples reached the goal."
        for c in cells
        if (reached(c, "anything_allowed") or 0) < 1
    ]
    return len(cells), flags


def gradients(cells: Sequence[CellResult]) -> Evidence:
    flags = []
    for cell in cells:
        for name, words in (("zero_gradients", "zero"), ("broken_gradients", "not finite (NaN or infinite)")):
            share = float(cell.result.get(name) or 0)
            # some zero gradients are normal; one that is not finite is always a fault
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
    """Models that declare themselves random, and others with two different outputs for the same samples."""
    flags = []
    for cell in cells:
        if cell.result["random"] and cell.result["draws"] <= 1:
            flags.append(f"{place(cell)}: each gradient was taken from one random draw.")
        elif not cell.result["random"] and (differs := float(cell.result.get("differs") or 0)):
            words = (
                f"evaluated twice, its output differs on {fmt(differs, '%')} of the samples, but the model "
                "is not declared random."
            )
            flags.append(f"{place(cell)}: {words}")
    return len(cells), flags


def reached(cell: CellResult, name: str) -> float | None:
    """Share of the samples at the goal after a probe."""
    value = cell.result["probes"].get(name)
    return None if value is None else float(value)


def _beaten(cells: Sequence[CellResult], probe: str, words: str) -> Evidence:
    """A probe that should do worse than many gradient steps, but does better by more than one sample."""
    compared, flags = 0, []
    for cell in cells:
        a, b, n = reached(cell, probe), reached(cell, "many_steps"), cell.result["n"]
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
