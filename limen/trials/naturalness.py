"""Naturalness rating of a clip from 1 to 5.

The anchors are those of Vadillo & Santana 2022, https://arxiv.org/abs/2001.08444, section 5.1, who also ask
on the same screen which command is heard: option `identify`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.clips import Clips, answers, clips
from limen.trials.base.screen import Choice, Listener, Screen, Widget
from limen.trials.base.trial import HypothesisKind
from limen.trials.identification import one_of, spoken_word, word

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
    analyses: ClassVar[tuple[str, ...]] = ("ratings",)
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("different",)
    words_count_for: ClassVar[str] = "identification"

    question: str = Field(default="How natural does the clip sound?", max_length=500)
    """The question."""
    anchors: list[str] = Field(default=ANCHORS, min_length=2, max_length=11)
    """Meanings of the numbers 1, 2, ..."""
    identify: bool | list[str] = False
    """Also ask which word is heard: true, among the answers of all items, or a list of words."""
    identify_question: str = Field(default="Which command do you hear?", max_length=500)
    """The question for the word."""
    other: str = Field(default="Other", max_length=100)
    """Label of a free-text answer after the words; empty: there is none."""

    def chance(self, items: Sequence[Any]) -> float:
        return one_of(self.identify if isinstance(self.identify, list) else answers(items))

    def levels(self) -> tuple[float, ...]:
        return tuple(float(k) for k in range(1, len(self.anchors) + 1))


def naturalness(listener: Listener, options: Naturalness) -> list[Screen]:
    scale = tuple(Choice(str(k), f"{k}: {text}") for k, text in enumerate(options.anchors, 1))
    widgets = [Widget("naturalness", "choose", options.question, scale)]
    truth: Any = lambda item: {}
    if options.identify:
        listed = options.identify if isinstance(options.identify, list) else []
        widgets.insert(0, word(listener, options.identify_question, listed, options.other))
        truth = spoken_word
    return clips("naturalness", listener, options, widgets, truth)
