"""Preference between two conditions of an item, A and B, optionally with a reference.

Which of the two is A alternates over items and listeners. With more than two conditions every pair is
compared.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.options import ComparedTrials, facts, session
from limen.trials.base.screen import Choice, Listener, Role, Screen, Sound, Stimulus, Widget
from limen.trials.base.trial import HypothesisKind

Case = tuple[Any, str, str]


class Preference(ComparedTrials):
    analyses: ClassVar[tuple[str, ...]] = ("preference",)
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("above_chance", "equivalent", "different")
    two_sided: ClassVar[bool] = True

    conditions: list[str] | None = Field(default=None, min_length=2)
    """Conditions that are compared, each with each other; null: all conditions of an item except the
    reference."""
    reference: str | None = None
    """Condition that can also be played, as in "which is closer to the reference?"; null: none."""
    question: str = Field(default="Which of the two clips do you prefer?", max_length=500)
    """The question."""
    indifferent: str = Field(default="", max_length=100)
    """Label of a third answer, "no preference"; empty: the listener has to choose."""


def preference(listener: Listener, options: Preference) -> list[Screen]:
    both = (Choice("A", "A"), Choice("B", "B"))
    widget = Widget(
        "answer",
        "choose",
        options.question,
        both + ((Choice("none", options.indifferent),) if options.indifferent else ()),
    )

    extra = {"reference": options.reference} if options.reference else {}

    def cases(items: Sequence[Any]) -> list[Case]:
        usable = [i for i in items if options.reference is None or options.reference in i.files]
        return [
            (i, *pair)
            for i in usable
            for pair in combinations([c for c in i.files if _compared(c, options)], 2)
        ]

    def screen(case: Case, turn: int, role: Role) -> Screen:
        item, *pair = case
        a, b = pair[:: -1 if turn % 2 else 1]
        sounds = tuple(Sound(label, Stimulus(item.files[name]), name) for label, name in (("A", a), ("B", b)))
        if options.reference is not None:
            sounds = (
                Sound("Reference", Stimulus(item.files[options.reference]), options.reference, rated=False),
                *sounds,
            )
        return Screen(
            "preference",
            role,
            options.title,
            options.text,
            sounds,
            (widget,),
            options.plays,
            options.switch,
            facts=facts(item, f"{pair[0]} / {pair[1]}", sounds, a=a, b=b, **extra),
        )

    return session("preference", listener, options, cases, screen)


def _compared(condition: str, options: Preference) -> bool:
    return condition != options.reference and (options.conditions is None or condition in options.conditions)
