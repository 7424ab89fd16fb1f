"""A chosen first word of the transcript: a "mildly targeted" attack (appendix D.3.2 of Olivier 2023).

The loss is that of the sentence with the word in front of it; success depends on the first word alone.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.text import normalised
from limen.core.types import Transcripts, predictions
from limen.goals.base.goal import Goal, GoalContext, truths
from limen.goals.base.options import GoalOptions


class FirstWord(GoalOptions):
    targeted = True
    outputs = ("transcript",)

    word: str = Field(default="but", min_length=1, pattern=r"^\S+$")
    """The first word of the transcript, in the model's own alphabet."""
    before: Literal["label", "prediction"] = "label"
    """The sentence that the word is put in front of: the truth or the model's own clean transcript."""


@dataclass(frozen=True)
class _FirstWord(Goal):
    word: str = ""

    def _reached(self, outputs: Tensor | Transcripts) -> Tensor:
        assert not isinstance(outputs, Tensor)
        return outputs.would_transcribe(
            self.reference, [min(len(self.word) + 1, len(r)) for r in self.reference]
        )

    def _judged(self, outputs: Tensor | Transcripts) -> Tensor:
        assert not isinstance(outputs, Tensor)
        wanted = normalised(self.word, self.normalise)
        return torch.tensor([normalised(t, self.normalise).split()[:1] == [wanted] for t in outputs.texts()])


def first_word(context: GoalContext, options: FirstWord) -> Goal:
    true = truths(context, "first_word")
    rest = true if options.before == "label" else [str(t) for t in predictions(context.own)]
    # a sentence that begins with the word already is not changed, and counts as reached from the start
    reference = [
        text if text.split()[:1] == [options.word] else f"{options.word} {text}".strip() for text in rest
    ]
    return _FirstWord(reference, targeted=True, word=options.word)
