"""Consent: what the study is about and what happens to the answers. Nobody goes on without agreeing, and
whoever does not agree leaves nothing behind but a refusal that is counted."""

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Choice, Listener, Screen, Widget

TEXT = (
    "You are asked to listen to sounds and to answer questions about them.\n"
    "\n"
    "Taking part is voluntary. You can stop at any time by closing this page. Your answers are stored "
    "without your name; what you tell about yourself is kept apart from them and can be erased on request."
)


class Consent(Page):
    title: str = Field(default="Before you begin", max_length=200)
    """Heading of the screen."""
    text: str = Field(default=TEXT, max_length=20_000)
    """What is agreed to: plain paragraphs, parted by empty lines."""
    question: str = Field(default="Do you agree to take part?", max_length=500)
    """What is asked."""
    agree: str = Field(default="I agree", min_length=1, max_length=200)
    """The only answer that is stored; whoever does not give it does not begin."""
    decline: str = Field(default="I do not agree", min_length=1, max_length=200)
    """Label of the button that ends the study: everything about this listener is deleted, only the number of
    refusals grows by one."""


def consent(listener: Listener, options: Consent) -> list[Screen]:
    widget = Widget("consent", "choose", options.question, choices=(Choice("agree", options.agree),))
    return [
        Screen("consent", "page", options.title, options.text, widgets=(widget,), decline=options.decline)
    ]
