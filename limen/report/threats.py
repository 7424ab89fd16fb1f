"""The threat model of each attack as one sentence: what the attacker knows, wants and may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from limen.report.formatting import fmt, listed, many, variable_text
from limen.report.run import CellResult

STORED = {"int16": "16-bit audio as stored", "uint8": "8-bit images as stored"}


@dataclass(frozen=True)
class Threat:
    attacks: list[str]
    sentence: str


def threats(cells: Sequence[CellResult]) -> list[Threat]:
    """The threat model of each attack; attacks with the same one share an entry."""
    grouped: dict[str, list[str]] = {}
    for attack in dict.fromkeys(c.attack for c in cells if c.attack != "none"):
        grouped.setdefault(_sentence([c for c in cells if c.attack == attack]), []).append(attack)
    return [Threat(names, sentence) for sentence, names in grouped.items()]


def _sentence(cells: Sequence[CellResult]) -> str:
    first = cells[0]
    wants = "" if first.control else f", wants {_goal(first)}"
    alone = ", searches for one change that serves all samples" if first.universal else ""
    if first.attack_spec.get("through"):
        transforms = listed([str(one["name"]) for one in first.attack_spec["through"]])
        alone += f", searches through random draws of {transforms}"
    comma = "," if wants else ""
    attacker = f"{_knowledge(cells)}{wants}{alone}{comma} and {_limit(cells)}"
    return f"{attacker}; success is judged on {_judged(first)}."


def _knowledge(cells: Sequence[CellResult]) -> str:
    first = cells[0]
    defended = [c for c in cells if c.defense != "none"]
    if first.control:
        return "The control knows nothing about the model: it adds random noise"
    if first.victims or first.proxies:
        proxies = listed(first.proxies) or "each proxy in turn"
        return f"The attacker computes the change on {proxies}, and the attack must transfer"
    if first.value("forward_calls") == 0 and first.value("backward_calls") == 0 and not first.universal:
        return "The attacker does not use the model: the change depends on the sample alone"
    if first.queries:
        return "The attacker uses the model’s outputs only, no gradients"
    if defended and not all(c.sees_defense for c in defended):
        some = any(c.sees_defense for c in defended)
        return f"The attacker knows the model but not {'every' if some else 'the'} defence"
    return f"The attacker knows the model{' and the defence' if defended else ''} (white box)"


def _goal(cell: CellResult) -> str:
    goal = cell.goal
    if goal["name"] == "untargeted":
        own = goal.get("away_from") == "prediction"
        return "any output but the model’s own on the clean sample" if own else "any wrong output"
    if goal["name"] == "target_class":
        target = goal.get("target", "random")
        if isinstance(target, int):
            return f"the class {cell.classes[target] if 0 <= target < len(cell.classes) else target}"
        return "the least likely class" if target == "least_likely" else "a random wrong class"
    if goal["name"] == "transcript":
        if goal.get("among"):
            choice = "drawn at random" if goal.get("choose") == "random" else "the closest in length"
            return f"one of {many(len(goal['among']), 'given transcript')}, {choice}"
        return f"the transcript “{goal.get('text') or ''}”"
    if goal["name"] == "first_word":
        return f"a transcript that begins with “{goal.get('word') or ''}”"
    if goal["name"] == "language":
        return f"the speech to be taken for the language “{goal.get('target') or ''}”"
    return f"the goal {_call(goal)}"


def _limit(cells: Sequence[CellResult]) -> str:
    """What the attacker may do, as the budget words it; over a sweep with the first and the last size."""
    first = cells[0]
    thing = "clip" if first.kind == "clip" else "image"
    if not first.curve and not first.budget:
        if first.limit:
            return f"may change the {thing} within the attack’s own limits ({variable_text(first.limit)})"
        if first.attack_info.get("own_limit"):
            return f"may change the {thing} within the attack’s own limits"
        if first.attack_info.get("minimal"):
            return f"may change the {thing} as much as it needs, by the smallest change it can find"
        return f"may change the {thing} without a limit"
    info = first.curve_info if first.curve else first.budget_info
    template = info.get("sentence_template") or info.get("sentence")
    if first.curve:
        sizes = sorted(float(v) for v in first.curve["values"] if v != info.get("nothing_at"))
    else:
        sizes = sorted({float(c.budget_info["value"]) for c in cells if c.budget_info})
    if not template or not sizes:
        return f"may change the {thing} within the budget {_call(first.budget)}"
    if len(sizes) == 1:
        return str(template).format(fmt(sizes[0])) + _grey_levels(first, sizes[0])
    return str(template).format(f"{fmt(sizes[0])} to {fmt(sizes[-1])}") + " (several budgets were tried)"


def _grey_levels(cell: CellResult, size: float) -> str:
    """(8/255): the largest change of one value of an image, in steps of an 8-bit image."""
    steps = 255 * size
    per_value = cell.kind == "picture" and cell.budget_info.get("column") == "linf"
    exact = abs(steps - round(steps)) < 0.02 and round(steps) > 0
    return f" ({round(steps)}/255)" if per_value and exact else ""


def _judged(cell: CellResult) -> str:
    store = str(cell.meta.get("stored_as") or ("int16" if cell.kind == "clip" else "float"))
    return STORED.get(store, "the values as stored")


def _call(spec: dict[str, Any]) -> str:
    return f"{spec.get('name')}({', '.join(f'{k}={v}' for k, v in spec.items() if k != 'name')})"
