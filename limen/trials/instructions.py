"""Instructions: a page of text."""

from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Screen


class Instructions(Page):
    text_only: ClassVar[bool] = True
    example: ClassVar[dict[str, Any]] = {"text": "You will hear short clips."}

    text: str = Field(min_length=1, max_length=20_000)
    """Text of the page: plain paragraphs, separated by empty lines."""


def instructions(listener: Listener, options: Instructions) -> list[Screen]:
    return [Screen("instructions", "page", options.title, options.text)]
