"""The number of listeners that the hypotheses of a study file need: the power of the verdicts of its
analysis, for its own design.

The analysis corrects all hypotheses together by Holm. Planning uses its worst case, alpha divided by their
number, which is valid for any results of the other hypotheses. Each value of a hypothesis' key `by` counts as
a hypothesis.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from limen.core.errors import UserError
from limen.listening.analysis.breakdowns import key_of
from limen.listening.design import screens
from limen.listening.statistics.assumptions import FEW_ITEMS
from limen.listening.statistics.power import (
    Plan,
    listeners_for_equivalence,
    listeners_for_shift,
    listeners_to_detect,
)
from limen.listening.study import Hypothesis, Study, clips_of
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type

SHIFT_SD = 0.5
"""Difference between conditions that should be detected, in standard deviations of a single rating."""
LOOKED_AT = 12
"""Listeners of each group whose screens are computed, to find which items are heard."""

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Needed:
    listeners: int
    plan: Plan
    value: str
    """The value of the hypothesis' key that needs most listeners."""
    tests: int
    """Tests that are corrected together."""


ItemsHeard = dict[str, dict[str, set[str]]]
"""Items that are heard, by value of a hypothesis' key and by condition."""


def plan_findings(
    study: Study, planned: Mapping[str, Sequence[Screen]], icc: float, item_sd: float
) -> list[tuple[Level, str]]:
    """Level and text of the findings about the hypotheses. `planned`: screens of the first listener of every
    group."""
    heard = [_items(study, h) for h in study.hypotheses]
    together = sum(len(values) for values in heard)
    out = [
        _finding(study, h, planned, values, together, icc, item_sd)
        for h, values in zip(study.hypotheses, heard, strict=True)
    ]
    return [
        *out,
        *(
            found
            for h, values in zip(study.hypotheses, heard, strict=True)
            for found in _few_items(h, values)
        ),
    ]


def _few_items(h: Hypothesis, heard: ItemsHeard) -> list[tuple[Level, str]]:
    fewest = min(
        (len(ids) for by_condition in heard.values() for ids in by_condition.values()), default=FEW_ITEMS
    )
    if fewest >= FEW_ITEMS:
        return []
    of = (
        "one item, whose effect cannot be separated from that of the condition"
        if fewest == 1
        else f"{fewest} items, so the variance between items is poorly known"
    )
    return [
        (
            "note",
            f'hypothesis "{h.name}": some of its answers are about only {of}. With five or more items '
            "the test keeps its level.",
        )
    ]


def _finding(
    study: Study,
    h: Hypothesis,
    planned: Mapping[str, Sequence[Screen]],
    heard: ItemsHeard,
    together: int,
    icc: float,
    item_sd: float,
) -> tuple[Level, str]:
    asked = f'hypothesis "{h.name}"'
    try:
        found = needed(study, h, planned, heard, together, icc, item_sd)
    except UserError as error:
        return "warning", f"{asked}: {error}"
    if found is None:
        return "error", f"{asked}: no step has any {h.trial} trial."
    of = f" for {h.by} {found.value}" if found.value else ""
    enough = study.listeners >= found.listeners
    level = f"alpha {h.alpha:g}" + (
        f" / {found.tests}: Holm's correction over {found.tests} tests, worst case" if found.tests > 1 else ""
    )
    return "note" if enough else "warning", (
        f"{asked}: {found.listeners} listeners reach {found.plan.power:.0%} power{of} "
        f"({found.plan.assumes}; {level}); {study.listeners} are "
        f"planned{'' if enough else ', which is too few'}."
    )


def needed(
    study: Study,
    h: Hypothesis,
    planned: Mapping[str, Sequence[Screen]],
    heard: ItemsHeard,
    together: int,
    icc: float,
    item_sd: float,
) -> Needed | None:
    """None if no step has such trials; a UserError if no number of listeners is enough."""
    by = key_of(h)
    counts = {
        group: Counter(_value(s, by) for s in _about(h, screens_)) for group, screens_ in planned.items()
    }
    found = []
    for value in sorted({value for count in counts.values() for value in count}):
        each = [count[value] for count in counts.values() if count[value]]
        trials, part = max(1, round(sum(each) / len(each))), len(each) / len(counts)
        chance = _chance(next(s for group in planned.values() for s in _about(h, group)))
        tests = together * _pairs(study, h, heard[value])
        plan = _plan(h, trials, heard[value], chance, h.alpha / tests, icc, item_sd)
        # only some groups hear it: listeners of the others are needed in addition
        found.append(
            Needed(plan.listeners if part == 1 else -int(-plan.listeners // part), plan, value, tests)
        )
    return max(found, key=lambda n: n.listeners, default=None)


def _plan(
    h: Hypothesis,
    trials: int,
    items: Mapping[str, set[str]],
    chance: float,
    alpha: float,
    icc: float,
    item_sd: float,
) -> Plan:
    several = len(set().union(*items.values()))
    two_sided = trial_type(h.trial).two_sided
    sides = 2 if two_sided else 1
    if h.kind == "equivalent":
        return listeners_for_equivalence(
            h.bound, trials, several, None, chance, icc, item_sd, h.power, alpha, sides
        )
    if h.kind == "above_chance" or two_sided:
        return listeners_to_detect(
            h.effect,
            trials,
            several,
            chance,
            icc,
            item_sd,
            h.power,
            alpha,
            sides if h.kind == "different" else 1,
        )
    # a screen that plays all conditions belongs to none of them
    nested = len(items) > 1 and several == sum(len(ids) for ids in items.values())
    fewest = min(len(ids) for ids in items.values())
    return listeners_for_shift(
        SHIFT_SD, max(1, trials // len(items)), fewest, nested, icc, item_sd, h.power, alpha
    )


def _pairs(study: Study, h: Hypothesis, items: Mapping[str, set[str]]) -> int:
    """Number of comparisons of conditions, of which the smallest corrected p decides. Sliders are compared
    with the reference; anchors do not count, because they are intended to be heard."""
    trial = trial_type(h.trial)
    if h.kind != "different" or trial.two_sided:
        return 1
    if trial.hidden_reference:
        return max(1, len({condition for item in study.items for condition in item.files}) - 1)
    return max(1, len(items) * (len(items) - 1) // 2)


def _items(study: Study, h: Hypothesis) -> ItemsHeard:
    """Clips that are heard, by value and condition."""
    by, clips = key_of(h), clips_of(study.items)
    out: ItemsHeard = defaultdict(lambda: defaultdict(set))
    for group in study.cells:
        for number in range(min(LOOKED_AT, study.listeners)):
            for screen in _about(h, screens(study, group, number)):
                out[_value(screen, by)][str(screen.facts.get("condition", ""))].add(
                    clips[str(screen.facts["item"])]
                )
    return out


def _value(screen: Screen, by: str | None) -> str:
    return str(screen.facts.get(by, "")) if by else ""


def _about(hypothesis: Hypothesis, found: Sequence[Screen]) -> list[Screen]:
    return [s for s in found if s.role == "trial" and s.kind == hypothesis.trial]


def _chance(screen: Screen) -> float:
    """Probability of a correct guess: one over the number of choices."""
    asked = [w for w in screen.widgets if w.name in screen.truth] or [w for w in screen.widgets if w.choices]
    return 1 / max(2, len(asked[0].choices)) if asked else 0.5
