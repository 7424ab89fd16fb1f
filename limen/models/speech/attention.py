"""Recognisers with two heads on one encoder: an autoregressive decoder with attention, and CTC.

Trained together, Watanabe et al. 2017, https://arxiv.org/abs/1609.06773:
    L = weight L_CTC + (1 - weight) L_attention
The option `head` selects the head that gives the transcripts: two models that share an encoder and a weights
file.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from limen.core.errors import SampleError
from limen.core.types import Transcripts
from limen.models.base.model import Model
from limen.models.speech.beam import END, State, beam_search
from limen.models.speech.ctc import ALPHABET, CtcTranscripts, RecogniserOptions, spelled
from limen.models.speech.packed_clips import frame_mask

FRAME_S = 0.04


class Seq2SeqOptions(RecogniserOptions):
    head: Literal["attention", "ctc"] = "attention"
    """The head that gives the transcripts: "attention", the autoregressive decoder, or "ctc", the CTC head
    of the encoder."""
    training_ctc_weight: float = Field(default=0.5, ge=0, lt=1)
    """Weight of the CTC loss in training; both heads are trained together, whichever `head` is."""


class Decoder(Protocol):
    """An autoregressive decoder that attends to the frames. Tokens are END and the alphabet's symbols 1,
    2, ..."""

    def read(self, hidden: Tensor, mask: Tensor) -> State:
        """Hidden states (B, F, D) and a mask (B, F), True on the frames of each clip, to everything that
        the decoder needs of a clip, computed once."""

    def start(self, memory: State) -> State: ...

    def step(self, tokens: Tensor, state: State, memory: State) -> tuple[Tensor, State]:
        """Tokens (B,) to the logits of the next ones (B, K)."""

    def forced(self, tokens: Tensor, memory: State) -> Tensor:
        """Given tokens (B, L) to the logits of the token after each, (B, L, K): equal to L calls of
        `step`."""


class TwoHeads(nn.Module):
    """An encoder with two heads; `decoder` must be a `Decoder`."""

    def __init__(self, encoder: nn.Module, size: int, decoder: nn.Module):
        super().__init__()
        self.encoder, self.decoder, self.ctc = encoder, decoder, nn.Linear(size, len(ALPHABET) + 1)
        self.features = encoder.features


class AttentionTranscripts:
    """Implements `limen.core.types.Transcripts`. The decoder is evaluated when it is needed, and once for
    the same texts."""

    def __init__(self, network: TwoHeads, hidden: Tensor, frames: Tensor, options: Seq2SeqOptions):
        self.network, self.hidden, self.frames, self.options = network, hidden, frames, options
        """Encoded frames (B, F, D) and the number of frames of each clip; a text has at most one character
        per frame."""
        self._forced: tuple[list[str], Tensor, Tensor] | None = None

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """Negative log-likelihood of the texts. With first_weight = lambda, the first of L tokens
        (including END) has the weight 1 + lambda, and the sum is scaled by L / (L + lambda)."""
        logits, tokens = self._teacher_forced(texts)
        likelihoods = logits.log_softmax(2).gather(2, tokens.clamp_min(0)[:, :, None]).squeeze(2)
        losses, n = -likelihoods.masked_fill(tokens < 0, 0.0), (tokens >= 0).sum(1)
        total = losses.sum(1, dtype=torch.float64).to(
            losses.dtype
        )  # the order of summation depends on the length, which depends on the other clips
        return (total + first_weight * losses[:, 0]) * n / (n + first_weight)

    def texts(self) -> list[str]:
        return self._search(self.options.beam or 1)

    @property
    def exact(self) -> bool:
        return self.options.beam is None

    def would_transcribe(self, texts: Sequence[str], first: int | Sequence[int] | None = None) -> Tensor:
        """True if every given token is the most likely one after those before it: exactly when greedy
        decoding gives the text."""
        logits, tokens = self._teacher_forced(texts)
        places, lengths = torch.arange(tokens.shape[1], device=tokens.device), (tokens > END).sum(1)
        if first is None:
            counted = lengths + (lengths < self._limits())  # a text as long as the limit needs no END
        else:
            counted = lengths.minimum(torch.as_tensor(first, device=tokens.device))
        return ((logits.argmax(2) == tokens) | (places >= counted[:, None])).all(1)

    def rows(self, index: Tensor) -> "AttentionTranscripts":
        i = index.to(self.hidden.device)
        return AttentionTranscripts(self.network, self.hidden[i], self.frames[i], self.options)

    def ctc(self) -> CtcTranscripts:
        """The transcripts of the CTC head."""
        return CtcTranscripts(
            self.network.ctc(self.hidden).log_softmax(2), self.frames, frame_s=FRAME_S, beam=self.options.beam
        )

    def both_losses(self, texts: Sequence[str]) -> Tensor:
        """(B,) weighted sum of the losses of both heads, in nats per token."""
        weight = self.options.training_ctc_weight
        both = weight * self.ctc().nll(texts) + (1 - weight) * self.nll(texts)
        return both / torch.tensor([len(text) + 1 for text in texts]).to(both)

    @property
    def _decoder(self) -> Decoder:
        return self.network.decoder  # type: ignore[return-value]

    def _limits(self) -> Tensor:
        return self.frames.to(self.hidden.device)

    def _read(self) -> State:
        return self._decoder.read(self.hidden, frame_mask(self.hidden, self.frames))

    def _teacher_forced(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Logits (B, L, K) and the (B, L) target tokens: the text, END, and -1 after it."""
        known = self._forced is not None and self._forced[0] == list(texts)
        if not known or (torch.is_grad_enabled() and not self._forced[1].requires_grad):  # type: ignore[index]
            limits = zip(texts, self.frames.tolist(), strict=True)
            symbols = [self._symbols(text, limit, row) for row, (text, limit) in enumerate(limits)]
            longest = max(len(s) for s in symbols) + 1
            wanted = torch.tensor(
                [[*s, END, *[-1] * (longest - len(s) - 1)] for s in symbols], device=self.hidden.device
            )
            given = torch.cat([torch.full_like(wanted[:, :1], END), wanted[:, :-1].clamp_min(0)], 1)
            self._forced = list(texts), self._decoder.forced(given, self._read()), wanted
        return self._forced[1:]  # type: ignore[index]

    @staticmethod
    def _symbols(text: str, limit: int, row: int) -> list[int]:
        if len(text) > limit:
            raise SampleError(
                row,
                f"the text {text!r} has {len(text)} characters, but the clip has only {limit} frames of "
                f"{FRAME_S * 1000:g} ms, one for each: shorten the text, or leave the clip out.",
            )
        return spelled(text, ALPHABET)

    @torch.no_grad()
    def _search(self, width: int) -> list[str]:
        read = self._read()

        def step(tokens: Tensor, state: State) -> tuple[Tensor, State]:
            memory, before = state[: len(read)], state[len(read) :]
            logits, after = self._decoder.step(tokens, before, memory)
            return logits.log_softmax(1), (*memory, *after)

        found = beam_search(step, (*read, *self._decoder.start(read)), self.frames.tolist(), width)
        return ["".join(ALPHABET[s - 1] for s in symbols) for symbols, _ in found]


class SharedCtc(CtcTranscripts):
    """Transcripts of the CTC head of a model with two heads; in training the decoder's loss is included."""

    def __init__(self, both: AttentionTranscripts):
        own = both.ctc()
        super().__init__(own.log_probs, own.frames, own.alphabet, frame_s=own.frame_s, beam=own.beam)
        self.both = both


class Seq2Seq(Model):
    """`TwoHeads` as a model; the unused head is not computed."""

    output = "transcript"
    batch_invariant = True

    def __init__(self, network: TwoHeads, options: Seq2SeqOptions):
        super().__init__()
        self.network, self.options, self.kind, self.rate_hz = network, options, "clip", 16_000

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> AttentionTranscripts | SharedCtc:
        if lengths is None:
            lengths = torch.full((len(x),), x.shape[-1])
        hidden, frames = self.network.encoder(x, lengths.to(x.device))
        both = AttentionTranscripts(self.network, hidden, frames, self.options)
        return both if self.options.head == "attention" else SharedCtc(both)

    def transcript_loss(self, outputs: Transcripts, texts: Sequence[str]) -> Tensor:
        """(B,) weighted sum of the losses of both heads, in nats per token; both are trained, whichever is
        used."""
        both = outputs.both if isinstance(outputs, SharedCtc) else outputs
        assert isinstance(both, AttentionTranscripts)
        return both.both_losses(texts)
