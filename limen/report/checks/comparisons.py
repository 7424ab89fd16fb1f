"""Comparisons between the cells of a run, and one sentence for each that failed."""

import itertools

from limen.core.text import normalised
from limen.report.checks.base import DEAD_SHARE, RISE, Evidence, allowed, beats, groups, same_problem, success
from limen.report.formatting import fmt, place, variable_text
from limen.report.run import CellResult, number
from limen.report.transcripts import how_compared


def noise(cells: list[CellResult]) -> Evidence:
    """Noise of other cells, and the noise that a task tried along with the attack."""
    compared, flags = 0, []
    controls = [c for c in cells if c.control]
    for control, cell in itertools.product(controls, [c for c in cells if not c.control]):
        # a control has no goal, so the goal is left out of the comparison
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
    """Harm by noise, harm by the attack, harm before both, and a sentence for it; None if the two cannot be
    compared."""
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
    """Share of the noisy samples whose prediction is the target of the attack; None if the rows hold no
    target."""
    if cell.goal["name"] == "language":
        detected = control.rows.get("adversarial_language", [])
        return sum(v == cell.goal.get("target") for v in detected) / len(detected) if detected else None
    if cell.curve or "target" not in cell.rows:
        return None
    plain = (lambda text: normalised(str(text), how_compared(cell))) if cell.output == "transcript" else str
    wanted = {i: plain(t) for i, t in zip(cell.rows["id"], cell.rows["target"], strict=True) if t is not None}
    predicted = {
        i: plain(a)
        for i, a in zip(control.rows["id"], control.rows["adversarial_prediction"], strict=True)
        if i in wanted
    }
    return sum(wanted[i] == answer for i, answer in predicted.items()) / len(predicted) if predicted else None


def _along_the_curve(cell: CellResult) -> Evidence:
    """Noise and attack at each value of a constraint. If noise does next to no harm there is nothing to
    compare."""
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
        single = [c for c in group if _gradients(c) == 1 or c.attack_spec.get("steps") == 1]
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


def _gradients(cell: CellResult) -> float:
    """The most gradients that the attack took for one sample; 0 if the rows do not record it."""
    return max((v for v in cell.values("backward_calls") if v is not None), default=0.0)


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
    size = lambda info, value: value if info.get("larger_is_stronger", True) else -value
    sweeps: dict[tuple[object, ...], list[tuple[float, float, str, CellResult]]] = {}
    curves = []
    for cell in (c for c in cells if not c.control):
        for key, value in cell.variable.items():
            correct, v = cell.value("correct"), number(value)
            if "budget" in key and len(cell.variable) == 1 and correct is not None and v is not None:
                who = (cell.task_index, cell.net, cell.defense, cell.attack, key)
                sweeps.setdefault(who, []).append(
                    (size(cell.budget_info, v), correct, variable_text(cell.variable), cell)
                )
        if cell.curve and cell.rerun:
            name = cell.curve["constraint"]
            curves.append(
                [
                    (size(cell.curve_info, v), a, f"{name} {fmt(v)}", cell)
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
    unbounded = [c for c in unbounded if c.attack_info.get("searches", True)]
    return len(unbounded), [
        f"{place(c)}: it succeeds on {fmt(success(c), '%')} of the samples."
        for c in unbounded
        if (success(c) or 0) < 1
    ]
