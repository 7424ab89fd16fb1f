"""Trial types that ask about one clip at a time: which clips a listener hears, in which condition."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from limen.trials.base.options import ItemTrials, facts, session
from limen.trials.base.screen import Listener, Role, Screen, Sound, Stimulus, Widget


class Clips(ItemTrials):
    conditions: list[str] | None = None
    """Conditions that are played; null: all conditions of an item."""
    each: Literal["all", "one"] = "all"
    """all: every item in each of its conditions. one: every item in one of them, alternating over items and
    listeners."""


def clips(
    kind: str,
    listener: Listener,
    options: Clips,
    widgets: Sequence[Widget],
    truth: Callable[[Any], dict[str, str]] = lambda item: {},
) -> list[Screen]:
    """One screen for each clip; `truth` gives the right answers about an item."""

    def cases(items: Sequence[Any]) -> list[tuple[Any, list[str]]]:
        played = []
        for item in items:
            conditions = [c for c in item.files if options.conditions is None or c in options.conditions]
            if conditions:
                played.append((item, conditions))
        if options.each == "one":
            return played
        return [(item, [c]) for item, conditions in played for c in conditions]

    def screen(case: tuple[Any, list[str]], turn: int, role: Role) -> Screen:
        item, conditions = case
        condition = conditions[turn % len(conditions)]
        sounds = (Sound("Clip", Stimulus(item.files[condition]), condition),)
        return Screen(
            kind,
            role,
            options.title,
            options.text,
            sounds,
            tuple(widgets),
            options.plays,
            truth=truth(item),
            facts=facts(item, condition, sounds),
        )

    return session(kind, listener, options, cases, screen)


def answers(items: Sequence[Any]) -> list[str]:
    """The answers of all items, each once, in the order of the study file."""
    return list(dict.fromkeys(i.answer for i in items if i.answer is not None))
