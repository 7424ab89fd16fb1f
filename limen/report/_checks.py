"""The honest-attacker checks: signs that an attack was weak and the numbers flatter the model.

After Carlini et al. 2019, https://arxiv.org/abs/1902.06705, and the warnings of AutoAttack. Computed from summaries and rows alone.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from limen.report._run import Cell, number
from limen.report._words import THIN, fmt, place, variable_text

ONE_STEP = {"fgsm", "r_fgsm"}
DEAD_SHARE = 0.1
RISE = 0.02
"""Differences up to this, or of a single sample, are taken for chance."""

Evidence = tuple[int, list[str]]
"""How many comparisons could be made, and one sentence for each that went wrong."""


@dataclass(frozen=True)
class Check:
    name: str
    raised_if: str
    means: str
    do: str
    compared: int
    flags: list[str]

    @property
    def status(self) -> str:
        return "flag" if self.flags else "pass" if self.compared else "not run"


def run_checks(cells: Sequence[Cell]) -> list[Check]:
    done = [c for c in cells if c.done and c.attack != "none"]
    return [Check(name, raised, means, do, *look(done)) for name, raised, means, do, look in CHECKS]


def success(cell: Cell) -> float | None:
    """Share of samples fooled: the success column, or what accuracy leaves; of a curve, the mean over its values."""
    if cell.curve:
        return 1 - sum(cell.curve["accuracy"]) / len(cell.curve["accuracy"])
    rate = cell.mean("success")
    correct = cell.mean("correct")
    return rate if rate is not None else None if correct is None else 1 - correct


def _allowed(cell: Cell) -> str:
    """The budget in a form that can be compared; empty if there is none."""
    limit = {k: cell.curve[k] for k in ("constraint", "values")} if cell.curve else cell.budget
    return repr(sorted(limit.items())) if limit else ""


def _same_problem(cell: Cell) -> tuple[object, ...]:
    """Attacks that may be compared: same task, net, defence, goal and budget."""
    goal = cell.attack_spec.get("goal") or "untargeted"
    goal = {"name": goal} if isinstance(goal, str) else goal
    settled = {"away_from": "label", **goal} if goal.get("name") == "untargeted" else goal
    return (cell.task_index, cell.net, cell.defense, cell.sees_defense, repr(sorted(settled.items())), _allowed(cell))


def _groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    grouped: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault(_same_problem(cell), []).append(cell)
    return list(grouped.values())


def _noise(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    controls = [c for c in cells if c.control]
    for control, cell in itertools.product(controls, [c for c in cells if not c.control]):
        # a control wants nothing, so the goal is left out of the comparison
        if _same_problem(control)[:4] != _same_problem(cell)[:4] or _allowed(control) != _allowed(cell) or not _allowed(cell):
            continue
        a, b = success(control), success(cell)
        if a is None or b is None:
            continue
        compared += 1
        if a >= b and a > 0:
            flags.append(f"{place(cell)}: noise fools {fmt(a, '%')}, {cell.attack} {fmt(b, '%')}.")
    return compared, flags


def _one_step(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    for group in _groups(c for c in cells if not c.control):
        single = [c for c in group if c.attack_spec.get("name") in ONE_STEP or c.attack_spec.get("steps") == 1]
        several = [c for c in group if c not in single and (number(c.attack_spec.get("steps")) or 0) > 1]
        for one, more in itertools.product(single, several):
            a, b = success(one), success(more)
            if a is None or b is None:
                continue
            compared += 1
            if a - b > RISE and (a - b) * more.n > 1.5:
                flags.append(f"{place(more)}: {one.attack} (one step) fools {fmt(a, '%')}, {more.attack} only {fmt(b, '%')}.")
    return compared, flags


def _unseen(cells: list[Cell]) -> Evidence:
    defended = [c for c in cells if c.defense != "none" and not c.control]
    return len(defended), [f"{place(c)}: the attack did not see the defence." for c in defended if not c.sees_defense]


def _dead(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    for cell in cells:
        backward, dead = (sum(v for v in cell.values(column) if v is not None) for column in ("backward_calls", "dead_gradients"))
        if backward:
            compared += 1
            if dead / backward > DEAD_SHARE:
                flags.append(f"{place(cell)}: {fmt(dead / backward, '%')} of the gradients were zero or not finite.")
    return compared, flags


def _budget_grows(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    for points in _by_budget(cells):
        points.sort(key=lambda p: p[0])
        for (_, before, small, _), (_, after, large, cell) in itertools.pairwise(points):
            compared += 1
            if after - before > RISE and (after - before) * cell.n > 1.5:
                flags.append(f"{place(cell)}: accuracy rises from {fmt(before, '%')} at {small} to {fmt(after, '%')} at {large}.")
        (_, first, small, cell), (_, last, large, _) = points[0], points[-1]
        if len(points) > 2 and last >= first > RISE:
            flags.append(f"{place(cell)}: accuracy is {fmt(first, '%')} at {small} and still {fmt(last, '%')} at {large}.")
    return compared, flags


def _by_budget(cells: list[Cell]) -> list[list[tuple[float, float, str, Cell]]]:
    """Curves of (size, accuracy, words, cell) over the attacker's budget: sweeps of a budget, and attacks run anew at each constraint."""
    # a larger SNR is a smaller change
    size = lambda name, value: -value if name == "snr_db" else value  # noqa: E731
    sweeps: dict[tuple[object, ...], list[tuple[float, float, str, Cell]]] = {}
    curves = []
    for cell in (c for c in cells if not c.control):
        for key, value in cell.variable.items():
            correct, v = cell.mean("correct"), number(value)
            if "budget" in key and len(cell.variable) == 1 and correct is not None and v is not None:
                who = (cell.task_index, cell.net, cell.defense, cell.attack, key)
                sweeps.setdefault(who, []).append((size(key.rsplit(".", 1)[-1], v), correct, variable_text(cell.variable), cell))
        if cell.curve and cell.rerun:
            name = cell.curve["constraint"]
            curves.append(
                [(size(name, v), a, f"{name} {fmt(v)}", cell) for v, a in zip(cell.curve["values"], cell.curve["accuracy"], strict=True)]
            )
    return [*sweeps.values(), *curves]


def _random_without_draws(cells: list[Cell]) -> Evidence:
    chance = [c for c in cells if c.meta.get("random") and not c.control and c.sees_defense]
    return len(chance), [
        f"{place(c)}: each gradient was taken from one random draw." for c in chance if (number(c.meta.get("draws")) or 1) <= 1
    ]


def _minimal(cells: list[Cell]) -> Evidence:
    unbounded = [c for c in cells if not _allowed(c) and not c.control and not c.universal and success(c) is not None]
    return len(unbounded), [f"{place(c)}: {fmt(success(c), '%')} of the samples were fooled." for c in unbounded if (success(c) or 0) < 1]


CHECKS: list[tuple[str, str, str, str, Callable[[list[Cell]], Evidence]]] = [
    (
        "Noise control",
        "random noise of the same budget fools at least as many samples as the attack.",
        "The attack adds nothing over chance: it is broken or blocked, or the budget is so large that anything works.",
        "Add steps and restarts, look at the gradients, or shrink the budget.",
        _noise,
    ),
    (
        "Many steps beat one",
        f"a one-step attack fools more samples (by {100 * RISE:g} points) than a many-step one under the same goal and budget.",
        "The longer search gets lost, the usual sign of masked gradients.",
        "Change the step size, differentiate the defence honestly (BPDA, EOT), or try an attack without gradients.",
        _one_step,
    ),
    (
        "The attack saw the defence",
        "a defended model was attacked through the undefended one (attack_on_defense: false).",
        "The numbers hold only against an attacker who does not know of the defence.",
        "Set attack_on_defense: true before calling the defence a defence.",
        _unseen,
    ),
    (
        "Living gradients",
        f"more than {DEAD_SHARE:.0%} of the gradients were zero or not finite.".replace("%", f"{THIN}%"),
        "The model saturates or a step of it cannot be differentiated; the attack walked blind.",
        "Attack the logits rather than probabilities, give the defence a backward pass, or use double precision.",
        _dead,
    ),
    (
        "Accuracy falls with the budget",
        f"accuracy rises by more than {100 * RISE:g} points, or never falls, as the attacker may do more.",
        "A larger budget contains the smaller one, so the search failed at the larger.",
        "Scale the step with the budget, add restarts, or start from the smaller budget’s result.",
        _budget_grows,
    ),
    (
        "Random models are averaged",
        "a model that answers at random was attacked with one draw per gradient (no EOT).",
        "The gradient is mostly noise, and the defence looks better than it is.",
        "Set draws to 10 or more in the defence.",
        _random_without_draws,
    ),
    (
        "Unbounded attacks always win",
        "an attack without a budget fools fewer than all samples.",
        "With no limit some change always works, so the search stopped too early.",
        "Add steps or search rounds, or look for masked gradients.",
        _minimal,
    ),
]
