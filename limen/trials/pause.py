"""A break: a page that waits until the listener continues."""

from typing import ClassVar

from pydantic import Field

from limen.trials.base.options import Page, pause_screen
from limen.trials.base.screen import Listener, Screen


class Pause(Page):
    text_only: ClassVar[bool] = True

    title: str = Field(default="A break", max_length=200)
    """Heading of the screen."""
    text: str = Field(default="Rest your ears for a moment. Continue when you are ready.", max_length=20_000)
    """Text of the page."""


def pause(listener: Listener, options: Pause) -> list[Screen]:
    return [pause_screen(options.text, options.title)]
