"""A page to read: what the next part is about."""

from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Screen


class Instructions(Page):
    example: ClassVar[dict[str, Any]] = {"text": "Please sit in a quiet room."}

    text: str = Field(min_length=1, max_length=20_000)
    """What the page says: plain paragraphs, parted by empty lines."""


def instructions(listener: Listener, options: Instructions) -> list[Screen]:
    return [Screen("instructions", "page", options.title, options.text)]
