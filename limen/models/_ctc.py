"""Connectionist temporal classification: the answers of a recogniser that spells, frame by frame.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf:
    p(text | x) = sum over alignments that spell the text of prod_t p(symbol_t | x)
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.errors import UserError
from limen.models._model import Model

ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
"""Symbols 1, 2, ...; symbol 0 is the blank."""


class CtcTranscripts:
    """Implements `limen.types.Transcripts`."""

    def __init__(self, log_probs: Tensor, frames: Tensor, alphabet: str = ALPHABET):
        self.log_probs, self.frames, self.alphabet = log_probs, frames, alphabet
        """(B, F, K) and the (B,) frames that belong to each clip."""

    def nll(self, texts: Sequence[str]) -> Tensor:
        symbols = [self._symbols(text, int(n)) for text, n in zip(texts, self.frames, strict=True)]
        lengths = torch.tensor([len(s) for s in symbols])
        joined = torch.tensor([s for text in symbols for s in text], dtype=torch.long)
        return F.ctc_loss(self.log_probs.transpose(0, 1), joined, self.frames.cpu(), lengths, reduction="none")

    def texts(self) -> list[str]:
        """Greedy decoding: the likeliest symbol of each frame, repeats merged, blanks dropped."""
        return [self._spell(row[: int(n)]) for row, n in zip(self.log_probs.argmax(2).tolist(), self.frames, strict=True)]

    def rows(self, index: Tensor) -> "CtcTranscripts":
        return CtcTranscripts(self.log_probs[index.to(self.log_probs.device)], self.frames[index.to(self.frames.device)], self.alphabet)

    def _spell(self, symbols: Sequence[int]) -> str:
        kept = [s for i, s in enumerate(symbols) if s != 0 and (i == 0 or s != symbols[i - 1])]
        return " ".join("".join(self.alphabet[s - 1] for s in kept).split())

    def _symbols(self, text: str, frames: int) -> list[int]:
        strange = sorted({c for c in text if c not in self.alphabet})
        if strange:
            raise UserError(f"The text {text!r} has characters that this recogniser cannot spell: {' '.join(map(repr, strange))}. "
                            f"It knows {self.alphabet!r}; write the text in lower case and numbers as words.")  # fmt: skip
        needed = len(text) + sum(a == b for a, b in pairwise(text))  # a blank must part equal neighbours
        if needed > frames:
            raise UserError(f"The text {text!r} needs {needed} frames, but the clip has only {frames}: shorten the text.")
        return [self.alphabet.index(c) + 1 for c in text]


class Recogniser(Model):
    """A network from (x, lengths) to log-probabilities (B, F, K) and the (B,) frames of each clip, as a model."""

    def __init__(self, network: nn.Module, rate_hz: int, alphabet: str = ALPHABET):
        super().__init__()
        self.network, self.kind, self.rate_hz, self.alphabet = network, "clip", rate_hz, alphabet

    def forward(self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None) -> CtcTranscripts:
        if lengths is None:
            lengths = torch.full((len(x),), x.shape[-1])
        log_probs, frames = self.network(x, lengths.to(x.device))
        return CtcTranscripts(log_probs, frames, self.alphabet)
