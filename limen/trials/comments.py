"""Free comments of the listener; personal data, kept apart from the answers and erasable."""

from typing import ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Screen, Widget


class Comments(Page):
    personal: ClassVar[bool] = True

    question: str = Field(
        default="Is there anything you would like to tell us about this study?", max_length=500
    )
    """The question."""
    longest: int = Field(default=2000, ge=1, le=20_000)
    """Maximum number of characters."""


def comments(listener: Listener, options: Comments) -> list[Screen]:
    widget = Widget("comments", "type", options.question, required=False, longest=options.longest)
    return [Screen("comments", "page", options.title, options.text, widgets=(widget,), personal=True)]
