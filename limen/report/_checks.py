"""The honest-attacker checks: signs that an attack was weak and the numbers flatter the model.

After Carlini et al. 2019, https://arxiv.org/abs/1902.06705, and the warnings of AutoAttack. Computed from summaries and rows alone.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from limen.report._run import Cell, number
from limen.report._words import THIN, fmt, place, variable_text

ONE_STEP = {"fgsm", "r_fgsm"}
RANDOM_DEFENSES = {"crop_rescale", "smoothing"}
DEAD_SHARE = 0.1
RISE = 0.02

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
    """Share of samples fooled: the success column, or what accuracy leaves."""
    rate = cell.mean("success")
    correct = cell.mean("correct")
    return rate if rate is not None else None if correct is None else 1 - correct


def _same_problem(cell: Cell) -> tuple[object, ...]:
    """Attacks that may be compared: same task, net, defence, goal and budget."""
    goal = cell.attack_spec.get("goal") or "untargeted"
    goal = {"name": goal} if isinstance(goal, str) else goal
    settled = {"away_from": "label", **goal} if goal.get("name") == "untargeted" else goal
    return (cell.task_index, cell.net, cell.defense, cell.sees_defense, repr(sorted(settled.items())), repr(sorted(cell.budget.items())))


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
        if _same_problem(control)[:4] != _same_problem(cell)[:4] or control.budget != cell.budget or not cell.budget:
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
            if a > b:
                flags.append(f"{place(more)}: {one.attack} (one step) fools {fmt(a, '%')}, {more.attack} only {fmt(b, '%')}.")
    return compared, flags


def _unseen(cells: list[Cell]) -> Evidence:
    defended = [c for c in cells if c.defense != "none" and not c.control]
    return len(defended), [f"{place(c)}: the attack did not see the defence." for c in defended if not c.sees_defense]


def _dead(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    for cell in cells:
        backward, dead = cell.mean("backward_calls"), cell.mean("dead_gradients")
        if backward is None or dead is None:
            backward, dead = _total(cell, "backward_calls"), _total(cell, "dead_gradients")
        if backward:
            compared += 1
            if dead / backward > DEAD_SHARE:
                flags.append(f"{place(cell)}: {fmt(dead / backward, '%')} of the gradients were zero or not finite.")
    return compared, flags


def _total(cell: Cell, column: str) -> float:
    return sum(v for v in cell.values(column) if v is not None)


def _budget_grows(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    curves: dict[tuple[object, ...], list[tuple[float, float, Cell]]] = {}
    for cell in cells:
        for key, value in cell.variable.items():
            name, correct, size = key.rsplit(".", 1)[-1], cell.mean("correct"), number(value)
            if not cell.control and "budget" in key and len(cell.variable) == 1 and correct is not None and size is not None:
                # a larger SNR is a smaller change
                curves.setdefault((cell.task_index, cell.net, cell.defense, cell.attack, key), []).append(
                    (-size if name == "snr_db" else size, correct, cell))  # fmt: skip
    for points in curves.values():
        points.sort(key=lambda p: p[0])
        for (_, before, small), (_, after, large) in itertools.pairwise(points):
            compared += 1
            if after - before > RISE and (after - before) * large.n > 1.5:
                flags.append(f"{place(large)}: accuracy rises from {fmt(before, '%')} (at {variable_text(small.variable)}) to {fmt(after, '%')}.")
        first, last = points[0][1], points[-1][1]
        if len(points) > 2 and last >= first > RISE:
            flags.append(f"{place(points[-1][2])}: accuracy is {fmt(last, '%')} at the largest budget and {fmt(first, '%')} at the smallest.")
    return compared, flags


def _random_without_draws(cells: list[Cell]) -> Evidence:
    compared, flags = 0, []
    for cell in cells:
        defense = cell.spec.get("defense") or {}
        for part in defense if isinstance(defense, list) else [defense]:
            spec = part if isinstance(part, dict) else {"name": part}
            if cell.control or not cell.sees_defense or not (cell.meta.get("random") or spec.get("name") in RANDOM_DEFENSES):
                continue
            draws = number(cell.meta.get("draws")) or number(spec.get("draws")) or 1
            compared += 1
            if draws <= 1:
                flags.append(f"{place(cell)}: each gradient was taken from one random draw.")
    return compared, flags


def _minimal(cells: list[Cell]) -> Evidence:
    unbounded = [c for c in cells if not c.budget and not c.control and not c.universal and success(c) is not None]
    return len(unbounded), [f"{place(c)}: {fmt(success(c), '%')} of the samples were fooled." for c in unbounded if (success(c) or 0) < 1]


CHECKS: list[tuple[str, str, str, str, Callable[[list[Cell]], Evidence]]] = [
    ("Noise control", "random noise of the same budget fools at least as many samples as the attack.",
     "The attack adds nothing over chance: it is broken or blocked, or the budget is so large that anything works.",
     "Add steps and restarts, look at the gradients, or shrink the budget.", _noise),
    ("Many steps beat one", "a one-step attack fools more samples than a many-step attack under the same goal and budget.",
     "The longer search gets lost, the usual sign of masked gradients.",
     "Change the step size, differentiate the defence honestly (BPDA, EOT), or try an attack without gradients.", _one_step),
    ("The attack saw the defence", "a defended model was attacked through the undefended one (attack_on_defense: false).",
     "The numbers hold only against an attacker who does not know of the defence.",
     "Set attack_on_defense: true before calling the defence a defence.", _unseen),
    ("Living gradients", f"more than {DEAD_SHARE:.0%} of the gradients were zero or not finite.".replace("%", f"{THIN}%"),
     "The model saturates or a step of it cannot be differentiated; the attack walked blind.",
     "Attack the logits rather than probabilities, give the defence a backward pass, or use double precision.", _dead),
    ("Accuracy falls with the budget", f"accuracy rises by more than {100 * RISE:g} points, or never falls, as the attacker may do more.",
     "A larger budget contains the smaller one, so the search failed at the larger.",
     "Scale the step with the budget, add restarts, or start from the smaller budget’s result.", _budget_grows),
    ("Random models are averaged", "a model that answers at random was attacked with one draw per gradient (no EOT).",
     "The gradient is mostly noise, and the defence looks better than it is.",
     "Set draws to 10 or more in the defence.", _random_without_draws),
    ("Unbounded attacks always win", "an attack without a budget fools fewer than all samples.",
     "With no limit some change always works, so the search stopped too early.",
     "Add steps or search rounds, or look for masked gradients.", _minimal),
]  # fmt: skip
