"""Answer with the most frequent class, or transcript, over several draws of the random defences in the list.

An attacker follows the mean over the draws: the logarithm of the mean probabilities of the classes, or the
mean of the losses of a transcript. The vote on transcripts compares complete texts; ties, and with `median`
all votes, go to the text with the fewest word errors over all texts.
"""

from typing import ClassVar, Literal

from torch import Tensor

from limen.core.types import Answers, EnsembleOutputs, Transcripts, Values
from limen.defenses.base.voting import (
    VotedTranscripts,
    Voting,
    VotingOptions,
    majority_logits,
    median,
    most_frequent,
)
from limen.models.base.model import Model


class Majority(VotingOptions):
    example_after: ClassVar[tuple[dict[str, str], ...]] = ({"name": "jitter"},)

    transcripts: Literal["most_frequent", "median"] = "most_frequent"
    """Which of the transcripts is chosen: the most frequent one, or the one with the fewest word errors over
    all of them."""


class Majorities(Voting):
    def __init__(self, model: Model, options: Majority):
        super().__init__(model, options, "majority")
        self.choose = most_frequent if options.transcripts == "most_frequent" else median

    def vote(self, answers: list[Answers]) -> Tensor | Transcripts:
        logits = [one for one in answers if isinstance(one, Tensor)]
        if logits:
            return majority_logits(logits)
        texts = [one for one in answers if not isinstance(one, Tensor | Values | EnsembleOutputs)]
        return VotedTranscripts(texts, self.choose)


def majority(model: Model, options: Majority) -> Model:
    return Majorities(model, options)
