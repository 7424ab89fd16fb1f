"""Connectionist temporal classification (CTC): transcripts from the symbol probabilities of each frame.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf:
    p(text | x) = sum over alignments that spell the text of prod_t p(symbol_t | x)
"""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limen.core.errors import SampleError, UserError
from limen.models.base.model import Model, ModelOptions
from limen.models.speech.beam import prefix_beam

ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
"""Symbols 1, 2, ...; symbol 0 is the blank."""


class RecogniserOptions(ModelOptions):
    """Options shared by the recognisers."""

    decoding: Literal["greedy", "beam"] = "greedy"
    """"greedy": the most likely symbol at each step; "beam": the most likely text found by a beam search."""
    beam_width: int = Field(default=8, ge=1)
    """Hypotheses that the beam search keeps at each step."""

    @property
    def beam(self) -> int | None:
        return self.beam_width if self.decoding == "beam" else None


class CtcTranscripts:
    """Implements `limen.core.types.Transcripts`."""

    def __init__(
        self,
        log_probs: Tensor,
        frames: Tensor,
        alphabet: str = ALPHABET,
        *,
        frame_s: float = 0.02,
        beam: int | None = None,
    ):
        self.log_probs, self.frames, self.alphabet = log_probs, frames, alphabet
        """Log-probabilities (B, F, K) and the (B,) frames of each clip."""
        self.frame_s, self.beam = frame_s, beam
        """Duration of a frame; width of the beam search, None for greedy decoding."""

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """Negative log-likelihood of the texts. A sum over all alignments has no first token, so
        `first_weight` has no effect."""
        symbols = [
            self._symbols(text, int(n), row)
            for row, (text, n) in enumerate(zip(texts, self.frames, strict=True))
        ]
        lengths = torch.tensor([len(s) for s in symbols])
        joined = torch.tensor([s for text in symbols for s in text], dtype=torch.long)
        return F.ctc_loss(
            self.log_probs.transpose(0, 1), joined, self.frames.cpu(), lengths, reduction="none"
        )

    def texts(self) -> list[str]:
        if self.beam is None:
            return self.greedy()
        clips = zip(self.log_probs.detach().double().cpu().numpy(), self.frames.tolist(), strict=True)
        return [self._spell(prefix_beam(row[:n], self.beam)[0][0]) for row, n in clips]

    def greedy(self) -> list[str]:
        """The most likely symbol of each frame, with repeats merged and blanks dropped."""
        paths = zip(self.log_probs.argmax(2).tolist(), self.frames.tolist(), strict=True)
        return [self._spell([s for s, _ in groupby(path[:n]) if s != 0]) for path, n in paths]

    @property
    def exact(self) -> bool:
        return self.beam is None

    def would_transcribe(self, texts: Sequence[str], first: int | Sequence[int] | None = None) -> Tensor:
        ends = (
            [None] * len(texts)
            if first is None
            else [first] * len(texts)
            if isinstance(first, int)
            else first
        )
        equal = [output[:k] == text[:k] for output, text, k in zip(self.greedy(), texts, ends, strict=True)]
        return torch.tensor(equal, dtype=torch.bool, device=self.log_probs.device)

    def align(self, texts: Sequence[str] | None = None) -> list[list[tuple[str, float, float]]]:
        """Start and end of each word, (word, start in s, end in s), in the most likely alignment of each
        text, or of the transcript."""
        clips = zip(
            self.texts() if texts is None else texts,
            self.log_probs.detach().double().cpu().numpy(),
            self.frames.tolist(),
            strict=True,
        )
        return [
            self._words(text, viterbi(p[:n], self._symbols(text, n, row)))
            for row, (text, p, n) in enumerate(clips)
        ]

    def rows(self, index: Tensor) -> "CtcTranscripts":
        return CtcTranscripts(
            self.log_probs[index.to(self.log_probs.device)],
            self.frames[index.to(self.frames.device)],
            self.alphabet,
            frame_s=self.frame_s,
            beam=self.beam,
        )

    def _words(self, text: str, places: Sequence[tuple[int, int]]) -> list[tuple[str, float, float]]:
        words, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            words.append(
                (word, places[at][0] * self.frame_s, (places[at + len(word) - 1][1] + 1) * self.frame_s)
            )
            at += len(word)
        return words

    def _spell(self, symbols: Sequence[int]) -> str:
        return " ".join("".join(self.alphabet[s - 1] for s in symbols).split())

    def _symbols(self, text: str, frames: int, row: int) -> list[int]:
        symbols = spelled(text, self.alphabet)
        needed = len(text) + sum(a == b for a, b in pairwise(text))  # a blank must separate equal neighbours
        if needed > frames:
            raise SampleError(
                row,
                f"the text {text!r} needs {needed} frames, but the clip has only {frames} of "
                f"{1000 * self.frame_s:g} ms: shorten the text, or leave the clip out.",
            )
        return symbols


def spelled(text: str, alphabet: str) -> list[int]:
    """The symbols 1, 2, ... of a text's characters; raises a UserError for a character that is not in the
    alphabet."""
    strange = sorted({c for c in text if c not in alphabet})
    if strange:
        raise UserError(
            f"The text {text!r} has characters that this recogniser cannot output: "
            f"{' '.join(map(repr, strange))}. Its alphabet is {alphabet!r}; write the text in lower case and "
            "numbers as words."
        )
    return [alphabet.index(c) + 1 for c in text]


def viterbi(log_probs: np.ndarray, symbols: Sequence[int]) -> list[tuple[int, int]]:
    """Log-probabilities (F, K) and the symbols of a text to the first and last frame of each symbol, in
    the most likely alignment."""
    states = np.zeros(2 * len(symbols) + 1, dtype=int)
    states[1::2] = symbols  # a blank before, between and after: state 2i + 1 is symbol i
    may_skip = np.zeros(len(states), dtype=bool)
    may_skip[3::2] = states[3::2] != states[1:-2:2]  # the blank between two equal symbols cannot be left out
    best = np.where(np.arange(len(states)) < 2, log_probs[0, states], -np.inf)
    steps = np.zeros((len(log_probs), len(states)), dtype=int)
    for t in range(1, len(log_probs)):
        stay, one, two = (
            best,
            np.r_[-np.inf, best[:-1]],
            np.where(may_skip, np.r_[-np.inf, -np.inf, best[:-2]][: len(best)], -np.inf),
        )
        ways = np.stack([stay, one, two])
        steps[t] = ways.argmax(0)
        best = ways.max(0) + log_probs[t, states]
    state = len(states) - 1 if len(states) == 1 or best[-1] >= best[-2] else len(states) - 2
    path = [state]
    for t in range(len(log_probs) - 1, 0, -1):
        path.append(path[-1] - int(steps[t, path[-1]]))
    path.reverse()
    return [(path.index(2 * i + 1), len(path) - 1 - path[::-1].index(2 * i + 1)) for i in range(len(symbols))]


class Recogniser(Model):
    """A CTC recogniser, made of a network from (x, lengths) to log-probabilities (B, F, K) and the (B,)
    frames of each clip."""

    output = "transcript"
    batch_invariant = True

    def __init__(
        self,
        network: nn.Module,
        rate_hz: int,
        alphabet: str = ALPHABET,
        *,
        frame_s: float = 0.02,
        beam: int | None = None,
    ):
        super().__init__()
        self.network, self.kind, self.rate_hz, self.alphabet = network, "clip", rate_hz, alphabet
        self.frame_s, self.beam = frame_s, beam

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> CtcTranscripts:
        if lengths is None:
            lengths = torch.full((len(x),), x.shape[-1])
        log_probs, frames = self.network(x, lengths.to(x.device))
        return CtcTranscripts(log_probs, frames, self.alphabet, frame_s=self.frame_s, beam=self.beam)
