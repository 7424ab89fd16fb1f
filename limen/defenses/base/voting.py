"""One answer from several draws of a random model: mean logits, and votes on classes or transcripts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.types import Answers, GuardedOutputs, Outputs, Transcripts, answers_of
from limen.defenses.base.defended import Defended, streams_of
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model

Vote = Callable[[list[str]], str]
"""The texts of all draws of one clip -> the text that the vote chooses."""


class VotingOptions(DefenseOptions):
    """Options of every vote."""

    encloses: ClassVar[bool] = True

    votes: int = Field(default=16, ge=1)
    """Answers per sample, each with fresh draws of the other defences."""


class Voting(Defended):
    """The model's answers combined over `votes` calls. A subclass writes `vote`."""

    def __init__(self, model: Model, options: VotingOptions, name: str):
        super().__init__(model, options)
        if not model.random:
            raise UserError(
                f"The defense {name} votes over random draws, but the model draws nothing: all votes would "
                "be equal. Add a random defense to the list, for example jitter."
            )
        self.n, self.name = options.votes, name
        self.draws = -(-model.draws // options.votes)  # one call averages n draws already

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        streams = streams_of(x, generators, self.name)
        answers = [self.inner(x, lengths, streams) for _ in range(self.n)]
        return _refusals(answers, self.vote([answers_of(one) for one in answers]))

    def vote(self, answers: list[Answers]) -> Tensor | Transcripts:
        """The answers of all calls -> one answer per sample."""
        raise NotImplementedError


def mean_outputs(outputs: Sequence[Outputs], what: Literal["logits", "probabilities"]) -> Outputs:
    """(B, K) mean of the logits of several draws, or the logarithm of their mean probabilities."""
    logits = torch.stack([answers_of(one) for one in outputs])  # type: ignore[misc, arg-type]
    if what == "logits":
        return _refusals(outputs, logits.mean(0))
    log_n = torch.tensor(float(len(logits))).log().to(logits)
    return _refusals(outputs, logits.log_softmax(2).logsumexp(0) - log_n)


def majority_logits(logits: Sequence[Tensor]) -> Tensor:
    """(B, K) whose largest value is the most frequent class of the draws; ties go to the class with the
    larger mean probability.

    The values, and the gradient that an attacker follows, are those of the logarithm of the mean
    probabilities. If another class is largest there, the voted class is raised just above it.
    """
    every = torch.stack(list(logits))
    mean = every.log_softmax(2).logsumexp(0) - torch.tensor(float(len(every))).log().to(every)
    counts = torch.zeros_like(mean).scatter_add_(
        1, every.argmax(2).T, torch.ones_like(mean[:, :1]).expand(-1, len(every))
    )
    best = counts == counts.amax(1, keepdim=True)
    voted = mean.detach().masked_fill(~best, -torch.inf).argmax(1, keepdim=True)
    top = mean.detach().amax(1, keepdim=True)
    raised = torch.nextafter(top, torch.full_like(top, torch.inf))
    chosen = mean.detach().gather(1, voted)
    offset = torch.where(voted == mean.detach().argmax(1, keepdim=True), 0.0, raised - chosen)
    return mean + torch.zeros_like(mean).scatter_(1, voted, offset)


def median(texts: list[str]) -> str:
    """The text with the fewest word errors over all texts, then character errors, then the first."""
    return _nearest(list(dict.fromkeys(texts)), texts)


def most_frequent(texts: list[str]) -> str:
    """The most frequent text; ties go to the one nearest to all texts, then to the first."""
    counts = Counter(texts)
    most = max(counts.values())
    return _nearest([text for text in counts if counts[text] == most], texts)


def _nearest(candidates: list[str], texts: list[str]) -> str:
    if len(candidates) == 1:
        return candidates[0]

    def distance(text: str) -> tuple[int, int]:
        words = sum(edits(other.split(), text.split()).errors for other in texts)
        return words, sum(edits(other, text).errors for other in texts)

    return min(candidates, key=distance)


@dataclass(frozen=True)
class VotedTranscripts:
    """The transcripts of several draws of one model, and the text that a vote over them chooses.

    Implements `limen.core.types.Transcripts`. An attacker follows the mean loss over the draws; the attack
    has reached its goal when the chosen text has, not when every draw has.
    """

    draws: list[Transcripts]
    vote: Vote

    @property
    def exact(self) -> bool:
        """False: the chosen text is known only after the vote."""
        return False

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        return torch.stack([one.nll(texts, first_weight) for one in self.draws]).mean(0)

    def texts(self) -> list[str]:
        return [self.vote(list(one)) for one in zip(*(d.texts() for d in self.draws), strict=True)]

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        """(B,) bool: more than half of the draws would give these texts."""
        agree = torch.stack([one.would_transcribe(texts, first) for one in self.draws])
        return 2 * agree.sum(0) > len(self.draws)

    def rows(self, index: Tensor) -> "VotedTranscripts":
        return VotedTranscripts([one.rows(index) for one in self.draws], self.vote)


def _refusals(outputs: Sequence[Outputs], answer: Tensor | Transcripts) -> Outputs:
    """The answer, refused if more than half of the draws were. The attacker follows the median suspicion."""
    guarded = [one.suspicion for one in outputs if isinstance(one, GuardedOutputs)]
    if not guarded:
        return answer
    # torch takes the lower of two middle values: it is positive if more than half of the draws are refused
    return GuardedOutputs(answer, torch.stack(guarded).median(0).values)
