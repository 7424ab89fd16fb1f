"""How natural does a clip sound, from 1 to 5? With the anchors of Vadillo & Santana 2022,
https://arxiv.org/abs/2001.08444, section 5.1, who ask on the same screen which command is heard: option
`identify`.
"""

from typing import Any

from pydantic import Field

from limen.trials.base.clips import Clips, clips
from limen.trials.base.screen import Choice, Listener, Screen, Widget
from limen.trials.identification import said, word

ANCHORS = [
    "Clearly perturbed audio with an artificial sound or noise.",
    "The audio is slightly perturbed by an artificial sound or noise, not likely to be caused by the low "
    "quality of the microphones or ambient sounds.",
    "Not sure.",
    "No obvious signs of an artificial perturbation. The detectable perturbations are likely to be caused by "
    "a low- or mid-quality microphone, ambient sounds or ordinary noises.",
    "The audio clip clearly does not contain any artificial perturbation.",
]


class Naturalness(Clips):
    question: str = Field(default="How natural does the clip sound?", max_length=500)
    """What is asked."""
    anchors: list[str] = Field(default=ANCHORS, min_length=2, max_length=11)
    """What the numbers 1, 2, ... mean."""
    identify: bool | list[str] = False
    """Also asks which word is heard: true, among the answers of all items, or a list of words."""
    identify_question: str = Field(default="Which command do you hear?", max_length=500)
    """What is asked then."""
    other: str = Field(default="Other", max_length=100)
    """Label of a free answer beside the words; empty: there is none."""


def naturalness(listener: Listener, options: Naturalness) -> list[Screen]:
    scale = tuple(Choice(str(k), f"{k}: {text}") for k, text in enumerate(options.anchors, 1))
    widgets = [Widget("naturalness", "choose", options.question, scale)]
    truth: Any = lambda item: {}
    if options.identify:
        listed = options.identify if isinstance(options.identify, list) else []
        widgets.insert(0, word(listener, options.identify_question, listed, options.other))
        truth = said
    return clips("naturalness", listener, options, widgets, truth)
