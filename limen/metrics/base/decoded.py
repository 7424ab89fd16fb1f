"""Outputs of a recogniser whose texts are decoded once.

Many metrics need the texts, and a beam search takes as long as the model itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from limen.core.types import (
    EnsembleOutputs,
    GuardedOutputs,
    Outputs,
    Samples,
    Transcripts,
    Values,
    answers_of,
    refused_by,
    select,
)


@dataclass(frozen=True)
class Decoded:
    """Implements `limen.core.types.Transcripts`; other attributes are those of the wrapped outputs."""

    outputs: Transcripts
    decoded_texts: list[str]

    def texts(self) -> list[str]:
        return self.decoded_texts

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        return self.outputs.nll(texts, first_weight)

    @property
    def exact(self) -> bool:
        return self.outputs.exact

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        return self.outputs.would_transcribe(texts, first)

    def rows(self, index: Tensor) -> "Decoded":
        return Decoded(self.outputs.rows(index), select(self.decoded_texts, index))

    def __getattr__(self, name: str) -> Any:
        if name == "outputs":  # not set yet while a copy is made
            raise AttributeError(name)
        return getattr(self.outputs, name)


@torch.no_grad()
def decoded(outputs: Outputs) -> Outputs:
    """Outputs with their texts decoded; logits, and outputs that are decoded already, are returned
    unchanged."""
    if isinstance(outputs, GuardedOutputs):
        answers = decoded(outputs.answers)
        assert not isinstance(answers, GuardedOutputs)
        return GuardedOutputs(answers, outputs.suspicion)
    return (
        outputs
        if isinstance(outputs, Tensor | Values | EnsembleOutputs | Decoded)
        else Decoded(outputs, outputs.texts())
    )


def answered(samples: Samples) -> Samples:
    """The samples as metrics take them: texts decoded, and refusals of a detector in fields of their own. A
    refused clip has an empty transcript."""
    if samples.clean is None or samples.adversarial is None:
        return samples
    return replace(
        samples,
        clean=_plain(samples.clean),
        adversarial=_plain(samples.adversarial),
        clean_refused=refused_by(samples.clean),
        refused=refused_by(samples.adversarial),
    )


def _plain(outputs: Outputs) -> Outputs:
    answers, refused = decoded(answers_of(outputs)), refused_by(outputs)
    if refused is None or not isinstance(answers, Decoded):
        return answers
    texts = ["" if r else text for text, r in zip(answers.decoded_texts, refused.tolist(), strict=True)]
    return Decoded(answers.outputs, texts)
