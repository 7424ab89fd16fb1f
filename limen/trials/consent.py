"""Consent: what the study is about and how the answers are used.

A listener who declines leaves no data, except that refusals are counted.
"""

from typing import ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Choice, Listener, Screen, Widget

TEXT = (
    "You are asked to listen to sounds and to answer questions about them.\n"
    "\n"
    "Taking part is voluntary. You can stop at any time by closing this page. Your answers are stored "
    "without your name; what you tell us about yourself is kept separately and can be erased on request."
)


class Consent(Page):
    asks_consent: ClassVar[bool] = True

    title: str = Field(default="Before you begin", max_length=200)
    """Heading of the screen."""
    text: str = Field(default=TEXT, max_length=20_000)
    """What the listener agrees to: plain paragraphs, separated by empty lines."""
    question: str = Field(default="Do you agree to take part?", max_length=500)
    """The question."""
    agree: str = Field(default="I agree", min_length=1, max_length=200)
    """Label of the answer that begins the study."""
    decline: str = Field(default="I do not agree", min_length=1, max_length=200)
    """Label of the button that ends the study: all data about this listener is deleted, and the number of
    refusals increases by one."""


def consent(listener: Listener, options: Consent) -> list[Screen]:
    widget = Widget("consent", "choose", options.question, choices=(Choice("agree", options.agree),))
    return [
        Screen("consent", "page", options.title, options.text, widgets=(widget,), decline=options.decline)
    ]
