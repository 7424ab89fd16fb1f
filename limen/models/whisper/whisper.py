r"""OpenAI's Whisper: an encoder-decoder for 30 s of speech that transcribes with capitals and punctuation, in
English or in 99 languages.

Radford et al. 2022, https://arxiv.org/abs/2212.04356. Weights: limen data get whisper-tiny.en, or
whisper-base (all languages); or a file in OpenAI's format, or a Hugging Face folder. Departs from OpenAI's
decoding: one pass over one window, no timestamps, no second attempt at a higher temperature.

The fast path of attacks. Most of the encoder's 30 s is the silence after a short clip. Removing it changes
the encoder's output, and the direction of the gradient (two clips, 0.2 to 3 s of silence kept: cosine with
the exact gradient from -0.5 to 0.9). Instead, half a second of silence is kept, and of the rest one position
of 16, which has the weight 16 in every attention (a bias of log 16). Compared with the full path, for tiny.en
and ten read sentences of about 2.5 s: the transcripts are equal for 10 of 10; the loss of the transcript
(mean 1.2) differs by 0.13 on average and 0.28 at most, that of a foreign sentence (mean 61) by 2.1 on
average; on three of them the gradient's cosine is 0.89 to 0.91 in a ninth of the time. The default was chosen
on two of the ten. The loss of a synthesised sentence (4.8) differed by 1.1. For base, the gradient of the
language detector on one clip: cosine 0.82, with thin 8 0.89.
"""

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.load import read_state
from limen.models.base.model import Model, ModelOptions
from limen.models.whisper.features import HOP, RATE_HZ, WhisperFeatures
from limen.models.whisper.network import WhisperNetwork
from limen.models.whisper.tokens import Tokens, find_ranks
from limen.models.whisper.transcripts import Decoding, EncodedClips, WhisperTranscripts
from limen.models.whisper.weights import (
    MILLION_PARAMETERS,
    SIZES,
    ctranslate2_state,
    dims_of_file,
    dims_of_size,
    is_multilingual,
)

STEP = 2 * HOP
"""Samples between encoder positions."""


class Whisper(ModelOptions):
    small: ClassVar[dict[str, Any] | None] = None

    size: Literal[
        "tiny",
        "tiny.en",
        "base",
        "base.en",
        "small",
        "small.en",
        "medium",
        "medium.en",
        "large-v2",
        "large-v3",
        "large-v3-turbo",
    ] = "tiny.en"
    """Size of Whisper; those ending in .en are for English only. tiny.en and base can be downloaded. With
    a file or folder of your own (`weights`: OpenAI's .pt, or a folder with config.json and
    model.safetensors) the size is read from it, and this option is ignored."""
    language: str | None = None
    """Code of the spoken language ("en", "it", ...); null: the language detected in each clip."""
    task: Literal["transcribe", "translate"] = "transcribe"
    """"transcribe": in the spoken language; "translate": translated to English (multilingual models)."""
    decoding: Literal["greedy", "beam"] = "greedy"
    """"greedy": the most likely token at each step; "beam": the text with the highest mean log-likelihood
    per token found by a beam search."""
    beam_width: int = Field(default=5, ge=1)
    """Hypotheses that the beam search keeps."""
    max_tokens: int = Field(default=224, ge=1)
    """Maximum number of tokens of a transcript."""
    fast: bool = True
    """Use the fast path, with shortened silence after the clip (see `thin`), in attacks; success is judged
    on the full 30 s."""
    tail_s: float = Field(default=0.5, ge=0)
    """Silence after the clip that the fast path keeps in full, in seconds."""
    thin: int = Field(default=16, ge=1)
    """The fast path keeps one of this many positions of the remaining silence, with this weight."""

    def memory_mb(self, batch_size: int) -> int:
        # measured with Python and torch on clips of 3 s: tiny.en 824 MB for batches of 1, 879 for 4, and 1335
        # without `fast`; base 1189 for 1. Larger sizes follow their parameters, width and layers.
        width, encoder, decoder = SIZES[self.size.removesuffix(".en")]
        relative = width * (encoder + decoder) / (384 * 8)
        weights = 8 * MILLION_PARAMETERS[self.size.removesuffix(".en")]
        return round(weights + relative * (260 + (0 if self.fast else 510) + 20 * batch_size))

    def fetched(self) -> dict[str, Tensor]:
        folder = fetched_folder(f"whisper-{self.size}")
        if self.size == "base":
            return ctranslate2_state([folder / "model.bin.part1", folder / "model.bin.part2"])
        return read_state(folder / "tiny.en.pt")


class WhisperModel(Model):
    """Waveforms to `WhisperTranscripts`. Clips are padded with silence to 30 s, as in training; if
    `shortened`, most of that silence is removed.

    On a CPU, clips are evaluated one at a time: the outputs for a clip are bitwise equal in any batch, and it
    takes no longer, because clips are not padded to a common length.
    """

    output = "transcript"
    batch_invariant = True
    network: WhisperNetwork

    def __init__(self, network: WhisperNetwork, tokens: Tokens, options: Whisper):
        super().__init__()
        self.network, self.kind, self.rate_hz = network, "clip", RATE_HZ
        self.features = WhisperFeatures(network.dims.mels)
        self.tokens, self.options, self.shortened = tokens, options, False
        beam = options.beam_width if options.decoding == "beam" else None
        self.decoding = Decoding(options.language, options.task, beam, options.max_tokens)

    @cached_property
    def for_attack(self) -> Model:  # type: ignore[override]
        """The same weights with the fast path."""
        if not self.options.fast:
            return self
        fast = copy.copy(self)
        fast.shortened = True
        return fast

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> WhisperTranscripts:
        lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths.cpu()
        longest, most = int(lengths.max()), self.network.dims.positions * STEP
        if longest > most:
            raise UserError(
                f"model whisper: clips have at most {most / RATE_HZ:g} s, got {longest / RATE_HZ:.1f} s. "
                "Cut it or leave it out."
            )
        if x.device.type == "cpu":
            parts = [
                self._encode(clip[None, :n], torch.tensor([n]))
                for clip, n in zip(x, lengths.tolist(), strict=True)
            ]
        else:
            parts = [
                self._encode(
                    x[:, :longest] * (torch.arange(longest, device=x.device) < lengths.to(x.device)[:, None]),
                    lengths,
                )
            ]
        return WhisperTranscripts(self.network, self.tokens, parts, self.decoding)

    def _encode(self, x: Tensor, lengths: Tensor) -> EncodedClips:
        encoded, bias = self._encode_thinned(x, lengths) if self.shortened else (self._encode_full(x), None)
        return EncodedClips(self.network.encoder_keys_values(encoded), bias)

    def _encode_full(self, x: Tensor) -> Tensor:
        encoder = self.network.encoder
        return encoder(
            encoder.frames(self.features(x, 2 * self.network.dims.positions)) + encoder.positional_embedding
        )

    def _encode_thinned(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's output (B, positions, width) and the bias of attention to it: the logarithm of the
        number of positions that each one represents."""
        encoder, total, tail = (
            self.network.encoder,
            self.network.dims.positions,
            round(self.options.tail_s * RATE_HZ / STEP),
        )
        kept = [positions(int(n), tail, self.options.thin, total) for n in lengths]
        most = max(len(at) for at, _ in kept)
        at, bias = torch.zeros(len(x), most, dtype=torch.long), torch.full((len(x), most), -math.inf)
        for row, (places, weights) in enumerate(kept):
            at[row, : len(places)], bias[row, : len(places)] = places, weights.log()
        at, bias = at.to(x.device), bias.to(x)[:, None, None]
        # all frames of silence are equal (except at the very end): a few after the longest clip are enough
        silent = torch.minimum(lengths // STEP + 3, torch.tensor(total - 1)).to(x.device)
        frames = encoder.frames(self.features(x, 2 * min(int(silent.max()) + 2, total)))
        frames = frames.gather(1, at.minimum(silent[:, None])[:, :, None].expand(-1, -1, frames.shape[2]))
        return encoder(frames + encoder.positional_embedding[at], bias), bias


def positions(samples: int, tail: int, thin: int, total: int) -> tuple[Tensor, Tensor]:
    """Encoder positions that the fast path keeps of a clip, and the number of positions that each
    represents."""
    near = min(samples // STEP + 3 + tail, total)
    far = torch.tensor(range(near + (thin - 1) // 2, total, thin), dtype=torch.long)
    weights = torch.cat((torch.ones(near), torch.full((len(far),), (total - near) / max(len(far), 1))))
    return torch.cat((torch.arange(near), far)), weights


def whisper(options: Whisper) -> Model:
    if options.weights == "zoo" and options.size not in ("tiny.en", "base"):
        raise UserError(
            f"model whisper: only tiny.en and base can be downloaded, got size {options.size}. Give its "
            "file or folder: weights: path/to/whisper.pt, or a folder with config.json and model.safetensors."
        )
    path = None if options.weights in ("zoo", "random") else Path(options.weights).expanduser()
    dims = dims_of_size(options.size) if path is None else dims_of_file(path)
    multilingual = is_multilingual(dims, path)
    tokens = Tokens(find_ranks(path, multilingual), dims.vocabulary, multilingual)
    known = tokens.languages or ["en"]
    if options.language not in (None, *known):
        raise UserError(
            f'model whisper: language must be one of {", ".join(known)}, got "{options.language}".'
        )
    return WhisperModel(WhisperNetwork(dims), tokens, options)
