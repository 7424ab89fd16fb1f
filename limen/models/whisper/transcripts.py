"""Whisper's outputs: the loss of any text, the transcript, and the detected language."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError
from limen.models.whisper.decoding import beam_search, greedy
from limen.models.whisper.network import KeysValues, WhisperNetwork
from limen.models.whisper.tokens import Tokens


@dataclass(frozen=True)
class Decoding:
    """Options of decoding."""

    language: str | None
    """None: the language detected in each clip."""
    task: str
    beam: int | None
    """Width of the beam search; None for greedy decoding."""
    max_tokens: int
    """Maximum number of tokens of a transcript."""


@dataclass(frozen=True)
class EncodedClips:
    """The encoder's keys and values for each decoder layer, and the bias added to attention scores."""

    layers: list[KeysValues]
    bias: Tensor | None
    """(B, 1, 1, positions)"""

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def rows(self, index: Any) -> "EncodedClips":
        return EncodedClips(
            [(k[index], v[index]) for k, v in self.layers], None if self.bias is None else self.bias[index]
        )

    @staticmethod
    def joined(parts: "Sequence[EncodedClips]") -> "EncodedClips":
        """All clips in one batch; attention to padded positions has a bias of -inf."""
        if len(parts) == 1:
            return parts[0]
        most = max(part.layers[0][0].shape[2] for part in parts)
        filled = lambda x: F.pad(x, (0, 0, 0, most - x.shape[2]))
        layers = [
            tuple(torch.cat([filled(x) for x in same]) for same in zip(*of_layer, strict=True))
            for of_layer in zip(*(part.layers for part in parts), strict=True)
        ]
        biases = [
            F.pad(part.bias, (0, most - part.bias.shape[3]), value=-torch.inf)
            for part in parts
            if part.bias is not None
        ]
        return EncodedClips(layers, torch.cat(biases) if biases else None)  # type: ignore[arg-type]


class WhisperTranscripts:
    """Implements `limen.core.types.Transcripts`; for a multilingual Whisper also `language_logits` and
    `languages`. Differentiable outputs are computed for each of the `parts` separately; only decoding is
    batched."""

    exact = False

    def __init__(
        self, network: WhisperNetwork, tokens: Tokens, parts: list[EncodedClips], decoding: Decoding
    ):
        self.network, self.tokens, self.parts, self.decoding = network, tokens, parts, decoding
        self.languages = tokens.languages
        """Codes of the languages that can be detected; empty for an English Whisper."""
        self._likeliest: tuple[list[str], list[list[int]]] | None = None

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def device(self) -> torch.device:
        return self.parts[0].layers[0][0].device

    @cached_property
    def encoded(self) -> EncodedClips:
        return EncodedClips.joined(self.parts)

    @cached_property
    def language_logits(self) -> Tensor:
        """(B, languages) logits of the token after the start token, differentiable."""
        if not self.languages:
            raise UserError(
                "An English Whisper does not detect the language: use a multilingual one (size: base)."
            )
        return torch.stack(
            [
                logits[0, self.tokens.language_ids]
                for logits in self._forced([[self.tokens.start]] * len(self))
            ]
        )

    @property
    def detected(self) -> list[str]:
        return [self.languages[i] for i in self.language_logits.argmax(1).tolist()]

    @cached_property
    def prefixes(self) -> Tensor:
        """(B, P) tokens before the text, with the chosen language or the one detected in this input."""
        chosen = (
            [self.decoding.language] * len(self)
            if self.decoding.language or not self.languages
            else self.detected
        )
        return torch.tensor(
            [self.tokens.prefix(language, self.decoding.task) for language in chosen], device=self.device
        )

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """Negative log-likelihood of the text's tokens and the end token; equation 5.2 as a sum instead of
        a mean."""
        losses = []
        for tokens, logits in zip(*self._teacher_forced(texts), strict=True):
            surprise = -logits.log_softmax(1).gather(1, torch.tensor(tokens, device=self.device)[:, None])[
                :, 0
            ]
            n = len(tokens)
            losses.append((surprise.sum() + first_weight * surprise[0]) * (n / (n + first_weight)))
        return torch.stack(losses)

    def would_transcribe(self, texts: Sequence[str], first: int | Sequence[int] | None = None) -> Tensor:
        if self._likeliest is None or self._likeliest[0] != list(texts):
            with torch.no_grad():
                self._teacher_forced(texts)
        assert self._likeliest is not None
        ends = (
            [None] * len(texts)
            if first is None
            else [first] * len(texts)
            if isinstance(first, int)
            else list(first)
        )
        answers = [self._would_write(i, text, n) for i, (text, n) in enumerate(zip(texts, ends, strict=True))]
        return torch.tensor(answers, dtype=torch.bool, device=self.device)

    def texts(self) -> list[str]:
        return self._decoded if self.decoding.beam else self._greedy

    def rows(self, index: Tensor) -> "WhisperTranscripts":
        alone = len(self.parts) == len(self)
        parts = (
            [self.parts[i] for i in index.tolist()] if alone else [self.encoded.rows(index.to(self.device))]
        )
        return WhisperTranscripts(self.network, self.tokens, parts, self.decoding)

    @cached_property
    def _greedy(self) -> list[str]:
        return [self.tokens.decode(row) for row in greedy(self)]

    @cached_property
    def _decoded(self) -> list[str]:
        assert self.decoding.beam is not None
        rows = (self.rows(torch.tensor([i])) for i in range(len(self)))
        return [self.tokens.decode(beam_search(row, self.decoding.beam)) for row in rows]

    def _teacher_forced(self, texts: Sequence[str]) -> tuple[list[list[int]], list[Tensor]]:
        """For each text its tokens with the end token, and the logits (L, vocabulary) of each of them
        given the tokens before."""
        rows = [[*self.tokens.encode(text), self.tokens.end] for text in texts]
        longest, room = max(map(len, rows)), self.network.dims.context - self.prefixes.shape[1]
        if longest - 1 > room:
            text = texts[max(range(len(rows)), key=lambda i: len(rows[i]))]
            raise UserError(
                f"The text {text[:40]!r}... has {longest - 1} tokens, but Whisper outputs at most {room}: "
                "shorten the text."
            )
        before = self.prefixes.tolist()
        logits = [
            row[self.prefixes.shape[1] - 1 :]
            for row in self._forced([p + row[:-1] for p, row in zip(before, rows, strict=True)])
        ]
        self._likeliest = (
            list(texts),
            [self.suppress(row.detach()[None], first=True)[0].argmax(1).tolist() for row in logits],
        )
        return rows, logits

    def _forced(self, given: list[list[int]]) -> list[Tensor]:
        """For each clip the logits (L, vocabulary) after each of its given tokens."""
        logits: list[Tensor] = []
        for part in self.parts:
            rows = given[len(logits) : len(logits) + len(part)]
            longest = max(map(len, rows))
            filled = torch.tensor(
                [row + [self.tokens.end] * (longest - len(row)) for row in rows], device=self.device
            )
            after = self.network.decoder(filled, part.layers, part.bias)[0]
            logits += [one[: len(row)] for one, row in zip(after, rows, strict=True)]
        return logits

    def suppress(self, logits: Tensor, first: bool) -> Tensor:
        """Logits (B, L, vocabulary) with -inf for suppressed tokens; `first`: position 0 is that of the
        first token of a text."""
        never, never_first = (mask.to(logits.device) for mask in self.tokens.suppressed)
        logits = logits.masked_fill(never, -torch.inf)
        if first:
            logits[:, 0].masked_fill_(never_first, -torch.inf)
        return logits

    def _would_write(self, i: int, text: str, first: int | None) -> bool:
        """True if greedy decoding gives this text, or one that begins with its first characters. The
        most likely tokens are known up to the first one that differs."""
        assert self._likeliest is not None
        target, written = [*self.tokens.encode(text), self.tokens.end], self._likeliest[1][i]
        differs = next((k for k, token in enumerate(target) if written[k] != token), None)
        if differs is None:
            return True
        if first is None:
            return False
        wanted, begins = text.strip()[:first], self.tokens.decode(written[: differs + 1])
        if begins.startswith(wanted):
            return True
        undecided = wanted.startswith(begins.rstrip("\ufffd")) and written[differs] != self.tokens.end
        return undecided and self._greedy[i].startswith(wanted)
