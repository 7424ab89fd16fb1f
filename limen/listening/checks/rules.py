"""Requests of a study file that can never be fulfilled: rules that exclude no listener, hypotheses by factors
that no item has, conditions without files. None of them can be corrected after the first answer."""

from collections.abc import Iterator, Mapping, Sequence

from limen.core.components import names
from limen.listening.analysis.breakdowns import keys
from limen.listening.checks.check import Finding
from limen.listening.study import Rule, Study
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type, trial_types

ROLES = {"catch_confidence": "catch", "sentinels": "sentinel", "checks": "check", "unheard": "trial"}
"""Role of the screens that a rule counts."""
ANCHORED = ("hidden_reference", "mid_anchor")
"""Rules that count the screens of trial types with a hidden reference."""
COUNTING = ("sentinels", "checks", "headphones", "unheard")
"""Rules that exclude a listener with more than `most` such screens."""


def conditions(study: Study) -> Iterator[Finding]:
    """Conditions that a step names but of which no item has a file."""
    there = list(dict.fromkeys(c for item in study.items for c in item.files))
    for k, step in enumerate(study.steps):
        named = [*(step.get("conditions") or []), step.get("reference"), step.get("condition")]
        for condition in dict.fromkeys(c for c in named if c is not None and c not in there):
            text = (
                f"step {k + 1} ({step['name']}) names the condition {condition}, but no item has a file of it"
            )
            files = (
                f"(in a table of items the column file:{condition}). Items have files of: "
                f"{', '.join(there) or 'none'}."
            )
            yield Finding("error", f"{text} {files}")


def rules(study: Study, planned: Mapping[str, Sequence[Screen]]) -> Iterator[Finding]:
    """Rules that can exclude no listener, and checks that no rule uses. `planned`: screens of one listener of
    each group."""
    screens = [s for found in planned.values() for s in found]
    for rule in study.exclude:
        yield from _never(rule, planned)
        if rule.name == "catch_confidence":
            yield from _confidence(rule, screens)
    rated = {sound.condition for s in screens if trial_type(s.kind).hidden_reference for sound in s.sounds}
    for anchor in {rule.anchor for rule in study.exclude if rule.name == "mid_anchor"} - rated:
        if rated:
            yield Finding(
                "error",
                f"exclude has the rule mid_anchor about {anchor!r}, but what is rated is "
                f"{', '.join(sorted(rated))}.",
            )
    used = {rule.name for rule in study.exclude}
    for kind in dict.fromkeys(s.kind for s in screens if s.role == "check"):
        if not used & {"checks", kind}:
            way = trial_type(kind).exclusion
            yield Finding(
                "warning",
                f"the step {kind} has no effect: no rule of exclude uses it. Add {way}, or remove the step.",
            )


def _counted(rule: Rule, screen: Screen) -> bool:
    """Whether a rule counts a screen."""
    if rule.name in ANCHORED:
        return trial_type(screen.kind).hidden_reference
    return ROLES[rule.name] == screen.role if rule.name in ROLES else rule.name == screen.kind


def _needed(rule: Rule) -> str:
    """Role or trial types of the screens that a rule counts; empty: all screens."""
    if rule.name in ANCHORED:
        return " or ".join(trial_types("hidden_reference"))
    return ROLES.get(rule.name, rule.name if rule.name in names("trials") else "")


def _never(rule: Rule, planned: Mapping[str, Sequence[Screen]]) -> Iterator[Finding]:
    if not (needed := _needed(rule)):
        return
    most = max(sum(_counted(rule, s) for s in found) for found in planned.values())
    if not most:
        yield Finding(
            "error",
            f"exclude has the rule {rule.name}, but no step has any {needed} screen: no listener could be "
            "excluded by it.",
        )
    elif rule.name in COUNTING and rule.most >= most:
        text = (
            f"exclude has {{name: {rule.name}, most: {rule.most}}}, "
            f"but a listener gets only {most} such screens"
        )
        yield Finding("error", f"{text}: no listener could be excluded by it. `most` has to be below {most}.")


def _confidence(rule: Rule, screens: Sequence[Screen]) -> Iterator[Finding]:
    catch = [s for s in screens if s.role == "catch"]
    scale = list(
        dict.fromkeys(c.value for s in catch for w in s.widgets if w.name == "confidence" for c in w.choices)
    )
    if catch and (lacking := [v for v in rule.values if v not in scale]):
        text = (
            f"exclude has the rule catch_confidence with the values {', '.join(lacking)}, but the "
            "possible answers are"
        )
        yield Finding(
            "error",
            f"{text} {', '.join(scale) or 'none, since no trial asks for confidence'}. Set its `values`.",
        )


def questions(study: Study) -> Iterator[Finding]:
    """Hypotheses that are split by an unknown key."""
    known = keys(study)
    for h in study.hypotheses:
        if h.by is not None and h.by not in known:
            yield Finding(
                "error",
                f'hypothesis "{h.name}": is split by {h.by}, but no item has such a factor. Factors: '
                f"{', '.join(known)}.",
            )
