"""A recogniser's answers with their texts decoded once: many metrics ask for them, and a beam search takes as
long as the model itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from limen.core.types import EnsembleOutputs, Outputs, Transcripts, Values, select


@dataclass(frozen=True)
class Decoded:
    """Implements `limen.core.types.Transcripts`; whatever else the answers have is passed on."""

    answers: Transcripts
    said: list[str]

    def texts(self) -> list[str]:
        return self.said

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        return self.answers.nll(texts, first_weight)

    @property
    def exact(self) -> bool:
        return self.answers.exact

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        return self.answers.would_transcribe(texts, first)

    def rows(self, index: Tensor) -> "Decoded":
        return Decoded(self.answers.rows(index), select(self.said, index))

    def __getattr__(self, name: str) -> Any:
        if name == "answers":  # asked for before it is there, while a copy is made
            raise AttributeError(name)
        return getattr(self.answers, name)


@torch.no_grad()
def decoded(outputs: Outputs) -> Outputs:
    """Logits, and answers that are decoded already, stay as they are."""
    return (
        outputs
        if isinstance(outputs, Tensor | Values | EnsembleOutputs | Decoded)
        else Decoded(outputs, outputs.texts())
    )
