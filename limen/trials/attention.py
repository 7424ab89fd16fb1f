"""Is the listener listening, and does the listener understand? One word of a long sentence has to be found
among others.

As in Manocha et al. 2020, https://arxiv.org/abs/2001.04460, section 3.2. The exclusion rule {name: checks}
leaves out who misses it.
"""

from typing import Any, ClassVar

from pydantic import Field, model_validator

from limen.trials.base.options import Page
from limen.trials.base.screen import Listener, Screen, Sound, Stimulus, Widget, choices


class Attention(Page):
    example: ClassVar[dict[str, Any]] = {"file": "sentence.wav", "word": "boat", "others": ["goat", "coat"]}

    file: str = Field(min_length=1)
    """The sentence; a path from the study file's folder."""
    word: str = Field(min_length=1, max_length=100)
    """A word that is said in it."""
    others: list[str] = Field(min_length=1)
    """Words that are not."""
    question: str = Field(default="Which of these words do you hear?", max_length=500)
    """What is asked."""
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
