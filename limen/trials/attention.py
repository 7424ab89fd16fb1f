"""Attention check: which of several words is spoken in a sentence?

As in Manocha et al. 2020, https://arxiv.org/abs/2001.04460, section 3.2. The exclusion rule {name: checks}
excludes listeners who fail it.
"""

from typing import Any, ClassVar

from pydantic import Field, model_validator

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Role, Screen, Sound, Stimulus, Widget, choices


class Attention(Page):
    role: ClassVar[Role] = "check"
    example: ClassVar[dict[str, Any]] = {
        "file": "sentence.wav",
        "word": "river",
        "others": ["mountain", "forest"],
    }

    file: str = Field(min_length=1)
    """Recording of the sentence; a path relative to the folder of the study file."""
    word: str = Field(min_length=1, max_length=100)
    """A word of the sentence."""
    others: list[str] = Field(min_length=1)
    """Words that are not in the sentence."""
    question: str = Field(default="Which of these words do you hear?", max_length=500)
    """The question."""
    plays: int | None = Field(default=2, ge=1)
    """How often the sentence may be played."""

    @model_validator(mode="after")
    def _one_is_right(self) -> "Attention":
        if self.word in self.others or len(set(self.others)) < len(self.others):
            raise ValueError(f"`others` must hold different words, and not the word itself, {self.word!r}.")
        return self


def attention(listener: Listener, options: Attention) -> list[Screen]:
    words = [options.word, *options.others]
    listener.random.shuffle(words)
    widget = Widget("answer", "choose", options.question, choices(*words))
    sounds = (Sound("Sentence", Stimulus(options.file)),)
    truth = {"answer": options.word}
    return [
        Screen(
            "attention", "check", options.title, options.text, sounds, (widget,), options.plays, truth=truth
        )
    ]
