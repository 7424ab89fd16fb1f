"""Outputs of a recogniser whose texts are decoded once.

Many metrics need the texts, and a beam search takes as long as the model itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from limen.core.types import EnsembleOutputs, Outputs, Transcripts, select


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
    return (
        outputs
        if isinstance(outputs, Tensor | EnsembleOutputs | Decoded)
        else Decoded(outputs, outputs.texts())
    )
