"""Which of several words (or sounds, or speakers) is it? One of n, or something else."""

from typing import Any

from pydantic import Field

from limen.core.errors import UserError
from limen.trials.base.clips import Clips, answers, clips
from limen.trials.base.screen import Listener, Screen, Widget, choices


class Identification(Clips):
    question: str = Field(default="Which word do you hear?", max_length=500)
    """What is asked."""
    choices: list[str] = Field(default_factory=list)
    """What can be answered; default: every `answer` of the items."""
    other: str = Field(default="Other", max_length=100)
    """Label of a free answer beside the choices; empty: there is none."""


def identification(listener: Listener, options: Identification) -> list[Screen]:
    widget = word(listener, options.question, options.choices, options.other)
    return clips("identification", listener, options, [widget], said)


def word(listener: Listener, question: str, listed: list[str], other: str) -> Widget:
    words = listed or answers(listener.items)
    if not words:
        raise UserError(
            "identification: nothing to choose from. Give its option `choices`, or the items an `answer`."
        )
    return Widget("word", "choose", question, choices(*words), other=other, longest=100)


def said(item: Any) -> dict[str, str]:
    return {} if item.answer is None else {"word": item.answer}
