"""Headphone check: which of three tones is the quietest?

Woods et al. 2017, https://doi.org/10.3758/s13414-017-1361-2. One tone is 6 dB quieter; another is in opposite
phase on the two channels, which cancels over loudspeakers, so that it seems the quietest there. Five right
answers out of six are taken as proof of headphones: the exclusion rule {name: headphones, most: 1}.
"""

from typing import ClassVar

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Role, Screen, Sound, Stimulus, Widget, choices


class Headphones(Page):
    role: ClassVar[Role] = "check"
    exclusion: ClassVar[str] = "{name: headphones, most: 1}"

    title: str = Field(default="Headphones", max_length=200)
    """Heading of the screens."""
    text: str = Field(
        default="Please wear headphones. You will hear three tones, one of which is quieter than the others.",
        max_length=20_000,
    )
    """Text of the screens."""
    question: str = Field(default="Which tone is the quietest?", max_length=500)
    """The question."""
    screens: int = Field(default=6, ge=1, le=100)
    """Number of screens; the three tones are played in each of their six orders once in six screens."""
    plays: int | None = Field(default=1, ge=1)
    """How often each tone may be played."""


def headphones(listener: Listener, options: Headphones) -> list[Screen]:
    places = [
        ("normal", "quiet", "antiphase"),
        ("normal", "antiphase", "quiet"),
        ("quiet", "normal", "antiphase"),
        ("quiet", "antiphase", "normal"),
        ("antiphase", "normal", "quiet"),
        ("antiphase", "quiet", "normal"),
    ]
    listener.random.shuffle(places)
    widget = Widget("answer", "choose", options.question, choices("1", "2", "3"))
    screens = []
    for k in range(options.screens):
        order = places[k % len(places)]
        sounds = tuple(
            Sound(label, Stimulus(f"limen:tone:{tone}"), tone)
            for label, tone in zip("123", order, strict=True)
        )
        truth = {"answer": str(order.index("quiet") + 1)}
        screens.append(
            Screen(
                "headphones",
                "check",
                options.title,
                options.text,
                sounds,
                (widget,),
                options.plays,
                truth=truth,
            )
        )
    return screens
