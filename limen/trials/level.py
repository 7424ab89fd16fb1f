"""Setting the volume: a loud and a soft sound, played in turn. The loud one has the mean power of the study's
own sounds."""

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Choice, Listener, Screen, Sound, Stimulus, Widget

TEXT = (
    "Play both sounds in turn. Set the volume of your device so that the loud one is comfortable and you can "
    "still hear the soft one.\n\nPlease leave the volume as it is from then on."
)


class Level(Page):
    title: str = Field(default="Set the volume", max_length=200)
    """Heading of the screen."""
    text: str = Field(default=TEXT, max_length=20_000)
    """What the screen says: plain paragraphs, parted by empty lines."""
    done: str = Field(default="The volume is set", min_length=1, max_length=200)
    """The only answer."""


def level(listener: Listener, options: Level) -> list[Screen]:
    sounds = (Sound("Loud", Stimulus("limen:loud")), Sound("Soft", Stimulus("limen:soft")))
    widget = Widget("level", "choose", "Can you hear both sounds well?", (Choice("done", options.done),))
    return [Screen("level", "page", options.title, options.text, sounds, (widget,))]
