"""Questions about the listener: age, gender, hearing, device.

All are optional; the answers are personal data, kept apart from the others and erasable.
"""

from typing import ClassVar, Literal

from pydantic import Field

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Screen, Widget, choices

Question = Literal["age", "gender", "hearing", "device", "language"]
WIDGETS: dict[Question, Widget] = {
    "age": Widget("age", "type", "How old are you, in years?", required=False, longest=3),
    "gender": Widget(
        "gender",
        "choose",
        "What is your gender?",
        choices("female", "male"),
        required=False,
        other="other",
        longest=100,
    ),
    "hearing": Widget(
        "hearing",
        "choose",
        "Do you have any hearing loss that you know of?",
        choices("none that I know of", "mild", "moderate or severe", "I use a hearing aid or an implant"),
        required=False,
    ),
    "device": Widget(
        "device",
        "choose",
        "What do you listen with?",
        choices(
            "headphones over the ear",
            "earphones in the ear",
            "loudspeakers of a computer or phone",
            "separate loudspeakers",
        ),
        required=False,
        other="other",
        longest=100,
    ),
    "language": Widget("language", "type", "What is your first language?", required=False, longest=100),
}


class Demographics(Page):
    personal: ClassVar[bool] = True

    title: str = Field(default="About you", max_length=200)
    """Heading of the screen."""
    ask: list[Literal["age", "gender", "hearing", "device", "language"]] = Field(
        default=["age", "gender", "hearing", "device"], min_length=1
    )
    """Questions, in this order."""


def demographics(listener: Listener, options: Demographics) -> list[Screen]:
    widgets = tuple(WIDGETS[name] for name in dict.fromkeys(options.ask))
    return [Screen("demographics", "page", options.title, options.text, widgets=widgets, personal=True)]
