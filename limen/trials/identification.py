"""Identification: which of several words (or sounds, or speakers) is it, or another one?"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from limen.core.errors import UserError
from limen.trials.base.clips import Clips, answers, clips
from limen.trials.base.screen import Listener, Screen, Widget, choices
from limen.trials.base.trial import HypothesisKind


class Identification(Clips):
    analyses: ClassVar[tuple[str, ...]] = ("choices", "ratings")
    """Ratings: if the choices are numbers and items have no `answer`."""
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("above_chance", "equivalent", "different")

    question: str = Field(default="Which word do you hear?", max_length=500)
    """The question."""
    choices: list[str] = Field(default_factory=list)
    """Words to choose from; default: the `answer` of every item."""
    other: str = Field(default="Other", max_length=100)
    """Label of a free-text answer after the choices; empty: there is none."""

    def chance(self, items: Sequence[Any]) -> float:
        return one_of(self.choices or answers(items))


def identification(listener: Listener, options: Identification) -> list[Screen]:
    widget = word(listener, options.question, options.choices, options.other)
    return clips("identification", listener, options, [widget], spoken_word)


def one_of(words: Sequence[str]) -> float:
    """Chance of guessing one of these words."""
    return 1 / max(len(words), 2)


def word(listener: Listener, question: str, listed: list[str], other: str) -> Widget:
    words = listed or answers(listener.items)
    if not words:
        raise UserError(
            "identification: nothing to choose from. Give its option `choices`, or the items an `answer`."
        )
    return Widget("word", "choose", question, choices(*words), other=other, longest=100)


def spoken_word(item: Any) -> dict[str, str]:
    """The right answer to the question for the word."""
    return {} if item.answer is None else {"word": item.answer}
