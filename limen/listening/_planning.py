"""How many listeners the questions of a study file take: the power of the tests that its analysis will run, for its own design."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from limen.errors import UserError
from limen.listening.design import screens
from limen.listening.statistics import Plan, listeners_for_equivalence, listeners_for_shift, listeners_to_detect
from limen.listening.study import Hypothesis, Study, clips_of
from limen.trials._screen import Screen

SHIFT_SD = 0.5
"""Difference between conditions that should be found, in standard deviations of a single rating."""
LOOKED_AT = 12
"""Listeners of each group whose screens are made, to see which items are heard at all."""

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Needed:
    listeners: int
    plan: Plan
    value: str
    """Of the hypothesis' key: that which fewest answers are about."""


def needed(study: Study, hypothesis: Hypothesis, planned: Mapping[str, Sequence[Screen]], icc: float, item_sd: float) -> Needed | None:
    """None if no step has such trials; a UserError if no number of listeners is enough. `planned` are the first listener's screens of every
    group."""
    # condition tells what is compared where ratings differ, and is no reason to look at half of the answers
    by = None if hypothesis.kind == "different" else hypothesis.by
    counts = {group: Counter(_value(s, by) for s in _about(hypothesis, found)) for group, found in planned.items()}
    heard = _items(study, hypothesis, by)
    found = []
    for value in sorted({value for count in counts.values() for value in count}):
        each = [count[value] for count in counts.values() if count[value]]
        trials, part = max(1, round(sum(each) / len(each))), len(each) / len(counts)
        chance = _chance(next(s for group in planned.values() for s in _about(hypothesis, group)))
        plan = _plan(hypothesis, trials, heard[value], chance, icc, item_sd)
        # only some groups hear it: the others are needed besides
        found.append(Needed(plan.listeners if part == 1 else -int(-plan.listeners // part), plan, value))
    return max(found, key=lambda n: n.listeners, default=None)


def _plan(h: Hypothesis, trials: int, items: Mapping[str, set[str]], chance: float, icc: float, item_sd: float) -> Plan:
    several = len(set().union(*items.values()))
    if h.kind == "equivalent":
        return listeners_for_equivalence(h.bound, trials, several, None, chance, icc, item_sd, h.power, h.alpha)
    if h.kind == "above_chance" or h.trial == "preference":
        sides = 2 if h.kind == "different" else 1
        return listeners_to_detect(h.effect, trials, several, chance, icc, item_sd, h.power, h.alpha, sides)
    # a screen that plays all conditions has none of its own
    nested = len(items) > 1 and several == sum(len(ids) for ids in items.values())
    fewest = min(len(ids) for ids in items.values())
    return listeners_for_shift(SHIFT_SD, max(1, trials // len(items)), fewest, nested, icc, item_sd, h.power, h.alpha)


def _items(study: Study, hypothesis: Hypothesis, by: str | None) -> dict[str, dict[str, set[str]]]:
    """Value -> condition -> clips that are heard."""
    clips = clips_of(study.items)
    out: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for group in study.cells:
        for number in range(min(LOOKED_AT, study.listeners)):
            for screen in _about(hypothesis, screens(study, group, number)):
                out[_value(screen, by)][str(screen.facts.get("condition", ""))].add(clips[str(screen.facts["item"])])
    return out


def _value(screen: Screen, by: str | None) -> str:
    return str(screen.facts.get(by, "")) if by else ""


def _about(hypothesis: Hypothesis, found: Sequence[Screen]) -> list[Screen]:
    return [s for s in found if s.role == "trial" and s.kind == hypothesis.trial]


def _chance(screen: Screen) -> float:
    """Of guessing right: one in so many choices."""
    asked = [w for w in screen.widgets if w.name in screen.truth] or [w for w in screen.widgets if w.choices]
    return 1 / max(2, len(asked[0].choices)) if asked else 0.5


def said(study: Study, hypothesis: Hypothesis, planned: Mapping[str, Sequence[Screen]], icc: float, item_sd: float) -> tuple[Level, str]:
    """Level and text of what `limen listen check` says about a hypothesis."""
    asked = f'hypothesis "{hypothesis.name}"'
    try:
        found = needed(study, hypothesis, planned, icc, item_sd)
    except UserError as error:
        return "warning", f"{asked}: {error}"
    if found is None:
        return "error", f"{asked}: no step has any {hypothesis.trial} trial."
    of = f" for {hypothesis.by} {found.value}" if found.value else ""
    enough = study.listeners >= found.listeners
    return "note" if enough else "warning", (
        f"{asked}: {found.listeners} listeners find it with {found.plan.power:.0%} power{of} ({found.plan.assumes}); "
        f"{study.listeners} are planned{'' if enough else ', too few'}."
    )
