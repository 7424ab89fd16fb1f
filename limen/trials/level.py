"""Volume setting with a loud and a soft sound. The loud one has the mean power of the sounds of the study."""

from typing import ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Choice, Listener, Screen, Sound, Stimulus, Widget

TEXT = (
    "Play both sounds one after the other. Set the volume of your device so that the loud one is comfortable "
    "and you can still hear the soft one.\n\nPlease do not change the volume after that."
)


class Level(Page):
    sets_level: ClassVar[bool] = True

    title: str = Field(default="Set the volume", max_length=200)
    """Heading of the screen."""
    text: str = Field(default=TEXT, max_length=20_000)
    """Text of the screen: plain paragraphs, separated by empty lines."""
    done: str = Field(default="The volume is set", min_length=1, max_length=200)
    """Label of the only answer."""


def level(listener: Listener, options: Level) -> list[Screen]:
    sounds = (Sound("Loud", Stimulus("limen:loud")), Sound("Soft", Stimulus("limen:soft")))
    widget = Widget("level", "choose", "Can you hear both sounds well?", (Choice("done", options.done),))
    return [Screen("level", "page", options.title, options.text, sounds, (widget,))]
