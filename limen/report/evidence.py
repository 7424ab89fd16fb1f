"""What the honest-attacker checks look at: comparisons made in a run, and one sentence for each that went
wrong."""

import itertools
from collections.abc import Iterable

from limen.core.text import normalised
from limen.report.formatting import fmt, place, variable_text
from limen.report.run import CellResult, number
from limen.report.transcripts import how_compared

ONE_STEP = {"fgsm", "r_fgsm"}
NO_SEARCH = {"imported"}
"""Attacks that take what others found."""
DEAD_SHARE = 0.1
RISE = 0.02
"""Differences up to this, or of a single sample, are taken for chance."""

Evidence = tuple[int, list[str]]
"""How many comparisons could be made, and one sentence for each that went wrong."""


def success(cell: CellResult) -> float | None:
    """Share of successes: the success column, or what accuracy leaves; of a curve, the mean over its
    values."""
    if cell.curve:
        return 1 - sum(cell.curve["accuracy"]) / len(cell.curve["accuracy"])
    rate = cell.value("success")
    correct = cell.value("correct")
    return rate if rate is not None else None if correct is None else 1 - correct


def allowed(cell: CellResult) -> str:
    """The budget in a form that can be compared; empty if there is none."""
    limit = {k: cell.curve[k] for k in ("constraint", "values")} if cell.curve else cell.limit
    return repr(sorted(limit.items())) if limit else ""


def same_problem(cell: CellResult) -> tuple[object, ...]:
    """Attacks that may be compared: same task, net, defence, goal and budget."""
    goal = cell.goal
    settled = {"away_from": "label", **goal} if goal["name"] == "untargeted" else goal
    return (
        cell.task_index,
        cell.net,
        cell.defense,
        cell.sees_defense,
        repr(sorted(settled.items())),
        allowed(cell),
    )


def beats(a: float, b: float, n: int, margin: float = RISE) -> bool:
    """a is more than b by more than the margin and by more than a single sample."""
    return a - b > margin and (a - b) * n > 1.5


def groups(cells: Iterable[CellResult]) -> list[list[CellResult]]:
    grouped: dict[tuple[object, ...], list[CellResult]] = {}
    for cell in cells:
        grouped.setdefault(same_problem(cell), []).append(cell)
    return list(grouped.values())


def noise(cells: list[CellResult]) -> Evidence:
    """Noise of other cells, and the noise that a task tried beside the attack."""
    compared, flags = 0, []
    controls = [c for c in cells if c.control]
    for control, cell in itertools.product(controls, [c for c in cells if not c.control]):
        # a control wants nothing, so the goal is left out of the comparison
        if (
            same_problem(control)[:4] != same_problem(cell)[:4]
            or allowed(control) != allowed(cell)
            or not allowed(cell)
        ):
            continue
        found = _harms(control, cell)
        if found is None:
            continue
        compared += 1
        a, b, least, words = found
        if a >= b and a > least + 1e-9:
            flags.append(
                f"{place(cell)}: {words.format(noise=fmt(a, '%'), attack=fmt(b, '%'), name=cell.attack)}"
            )
    for cell in (c for c in cells if not c.control and isinstance(c.curve.get("control"), dict)):
        more, worse = _along_the_curve(cell)
        compared += more
        flags += worse
    return compared, flags


def _harms(control: CellResult, cell: CellResult) -> tuple[float, float, float, str] | None:
    """Harm by noise, harm by the attack, harm that was there before, and how to say it; None if the two
    cannot be compared."""
    if cell.targeted:
        a, b, before, words = (
            _by_chance(control, cell),
            success(cell),
            0.0,
            "noise reaches the target on {noise}, {name} on {attack}.",
        )
    elif control.value("wer") is not None and cell.value("wer") is not None:
        a, b, before = control.value("wer"), cell.value("wer"), (cell.value("clean_wer") or 0.0) + RISE
        words = "noise raises the word error rate to {noise}, {name} to {attack}."
    else:
        a, b, before, words = (
            success(control),
            success(cell),
            0.0,
            "noise succeeds on {noise}, {name} on {attack}.",
        )
    return None if a is None or b is None else (a, b, before, words)


def _by_chance(control: CellResult, cell: CellResult) -> float | None:
    """Share of the noisy samples whose answer is what the attack wanted of them; None if the rows do not say
    what that was."""
    if cell.goal["name"] == "language":
        heard = control.rows.get("adversarial_language", [])
        return sum(v == cell.goal.get("target") for v in heard) / len(heard) if heard else None
    if cell.curve or "target" not in cell.rows:
        return None
    plain = (lambda text: normalised(str(text), how_compared(cell))) if cell.output == "transcript" else str
    wanted = {i: plain(t) for i, t in zip(cell.rows["id"], cell.rows["target"], strict=True) if t is not None}
    said = {
        i: plain(a)
        for i, a in zip(control.rows["id"], control.rows["adversarial_prediction"], strict=True)
        if i in wanted
    }
    return sum(wanted[i] == answer for i, answer in said.items()) / len(said) if said else None


def _along_the_curve(cell: CellResult) -> Evidence:
    """Noise beside the attack at each value of a constraint; where noise does next to nothing there is
    nothing to compare."""
    curve, control = cell.curve, cell.curve["control"]
    wer = bool(curve.get("wer") and control.get("wer"))
    harm = lambda x: [number(v) for v in x["wer"]] if wer else [1 - float(a) for a in x.get("accuracy") or []]
    points = [
        (v, a, b)
        for v, a, b in zip(curve["values"], harm(control), harm(curve), strict=False)
        if a is not None and b is not None
    ]
    if cell.targeted or not points:
        return 0, []
    least, words = min(h for _, a, b in points for h in (a, b)) + RISE, "word errors" if wer else "errors"
    worse = [
        f"{place(cell)}: at {curve['constraint']} {fmt(v)} noise gives {fmt(a, '%')} {words}, the attack "
        f"{fmt(b, '%')}."
        for v, a, b in points
        if a >= b and a > least
    ]
    return 1, worse


def one_step(cells: list[CellResult]) -> Evidence:
    compared, flags = 0, []
    for group in groups(c for c in cells if not c.control):
        single = [
            c for c in group if c.attack_spec.get("name") in ONE_STEP or c.attack_spec.get("steps") == 1
        ]
        several = [c for c in group if c not in single and (number(c.attack_spec.get("steps")) or 0) > 1]
        for one, more in itertools.product(single, several):
            a, b = success(one), success(more)
            if a is None or b is None:
                continue
            compared += 1
            if beats(a, b, more.n):
                flags.append(
                    f"{place(more)}: {one.attack} (one step) succeeds on {fmt(a, '%')}, {more.attack} only "
                    f"on {fmt(b, '%')}."
                )
    return compared, flags


def unseen(cells: list[CellResult]) -> Evidence:
    defended = [c for c in cells if c.defense != "none" and not c.control]
    return len(defended), [
        f"{place(c)}: the attack did not see the defence." for c in defended if not c.sees_defense
    ]


def dead(cells: list[CellResult]) -> Evidence:
    compared, flags = 0, []
    for cell in cells:
        backward, dead = (
            sum(v for v in cell.values(column) if v is not None)
            for column in ("backward_calls", "dead_gradients")
        )
        if backward:
            compared += 1
            if dead / backward > DEAD_SHARE:
                flags.append(
                    f"{place(cell)}: {fmt(dead / backward, '%')} of the gradients were zero or not finite."
                )
    return compared, flags


def budget_grows(cells: list[CellResult]) -> Evidence:
    compared, flags = 0, []
    for points in _by_budget(cells):
        points.sort(key=lambda p: p[0])
        for (_, before, small, _), (_, after, large, cell) in itertools.pairwise(points):
            compared += 1
            if beats(after, before, cell.n):
                flags.append(
                    f"{place(cell)}: accuracy rises from {fmt(before, '%')} at {small} to {fmt(after, '%')} "
                    f"at {large}."
                )
        (_, first, small, cell), (_, last, large, _) = points[0], points[-1]
        if len(points) > 2 and last >= first > RISE:
            flags.append(
                f"{place(cell)}: accuracy is {fmt(first, '%')} at {small} and still {fmt(last, '%')} at "
                f"{large}."
            )
    return compared, flags


def _by_budget(cells: list[CellResult]) -> list[list[tuple[float, float, str, CellResult]]]:
    """Curves of (size, accuracy, words, cell) over the attacker's budget: sweeps of a budget, and attacks run
    anew at each constraint."""
    # a larger SNR is a smaller change
    size = lambda name, value: -value if name == "snr_db" else value
    sweeps: dict[tuple[object, ...], list[tuple[float, float, str, CellResult]]] = {}
    curves = []
    for cell in (c for c in cells if not c.control):
        for key, value in cell.variable.items():
            correct, v = cell.value("correct"), number(value)
            if "budget" in key and len(cell.variable) == 1 and correct is not None and v is not None:
                who = (cell.task_index, cell.net, cell.defense, cell.attack, key)
                sweeps.setdefault(who, []).append(
                    (size(key.rsplit(".", 1)[-1], v), correct, variable_text(cell.variable), cell)
                )
        if cell.curve and cell.rerun:
            name = cell.curve["constraint"]
            curves.append(
                [
                    (size(name, v), a, f"{name} {fmt(v)}", cell)
                    for v, a in zip(cell.curve["values"], cell.curve["accuracy"], strict=True)
                ]
            )
    return [*sweeps.values(), *curves]


def random_without_draws(cells: list[CellResult]) -> Evidence:
    chance = [c for c in cells if c.meta.get("random") and not c.control and c.sees_defense]
    return len(chance), [
        f"{place(c)}: each gradient was taken from one random draw."
        for c in chance
        if (number(c.meta.get("draws")) or 1) <= 1
    ]


def minimal(cells: list[CellResult]) -> Evidence:
    unbounded = [
        c
        for c in cells
        if not allowed(c) and not (c.control or c.universal or c.proxies) and success(c) is not None
    ]
    unbounded = [c for c in unbounded if c.attack_spec.get("name") not in NO_SEARCH]
    return len(unbounded), [
        f"{place(c)}: it succeeds on {fmt(success(c), '%')} of the samples."
        for c in unbounded
        if (success(c) or 0) < 1
    ]
