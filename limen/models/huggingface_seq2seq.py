"""A Hugging Face Speech2Text recogniser, from a local folder: filter bank, convolutions, an autoregressive
transformer decoder.

Wang et al. 2020, https://arxiv.org/abs/2010.05171. The filter bank is computed in torch, so gradients reach
the waveform. The outputs of the convolutions after it depend on padding, so clips of equal length are encoded
together. For Whisper, use the model whisper.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Transcripts
from limen.models.base.model import Model
from limen.models.speech.ctc import RecogniserOptions
from limen.models.speech.fbank import Fbank
from limen.models.speech.huggingface import checkpoint, checkpoint_memory_mb, network, reading, transformers


class HuggingfaceSeq2seq(RecogniserOptions):
    small: ClassVar[dict[str, Any] | None] = None
    example: ClassVar[dict[str, Any]] = {"path": "checkpoint"}

    weights: str = "own"
    """"own": those of the checkpoint; otherwise the path of a .safetensors or .pth file for the same
    network, as written by `limen train`."""
    path: str
    """Folder with config.json, model.safetensors, the tokenizer's files and preprocessor_config.json, or
    the name of a downloaded checkpoint."""
    max_tokens: int = Field(default=200, ge=1)
    """Decoding stops after this many tokens."""

    def memory_mb(self, batch_size: int) -> int:
        return checkpoint_memory_mb(self.path, batch_size)


class TokenTranscripts:
    """Implements `limen.core.types.Transcripts`. The decoder is evaluated when it is needed, and once for
    the same texts."""

    exact = False

    def __init__(self, model: "Seq2seqCheckpoint", hidden: Tensor, frames: Tensor, inside: Tensor):
        self.model, self.hidden, self.frames, self.inside = model, hidden, frames, inside
        """Encoded frames (B, F, D), the (B,) filter-bank frames of each clip, and (B, F) True on frames of
        the clip."""
        self._forced: tuple[list[str], Tensor, Tensor] | None = None

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """With first_weight = lambda, the first token counts 1 + lambda times and the sum is scaled by L / (L
        + lambda) for L tokens."""
        logits, tokens = self._teacher_forced(texts)
        losses = F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none", ignore_index=-1)
        n = (tokens >= 0).sum(1)
        return (losses.sum(1) + first_weight * losses[:, 0]) * n / (n + first_weight)

    def nll_per_token(self, texts: Sequence[str]) -> Tensor:
        """(B,) nats per token."""
        losses = self.nll(texts)
        return losses / (self._teacher_forced(texts)[1] >= 0).sum(1)

    @torch.no_grad()
    def texts(self) -> list[str]:
        from transformers import GenerationConfig
        from transformers.modeling_outputs import BaseModelOutput

        config, start = self.model.network.config, self.model.start
        places = torch.arange(int(self.frames.max()), device=self.hidden.device)
        generation = GenerationConfig(
            num_beams=self.model.beam or 1,
            do_sample=False,
            max_new_tokens=self.model.max_tokens,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
        )
        hidden: Any = self.hidden.detach()
        tokens = self.model.network.generate(
            encoder_outputs=BaseModelOutput(hidden),
            attention_mask=(places < self.frames[:, None]).long(),
            decoder_input_ids=torch.tensor([start] * len(hidden), device=hidden.device),
            generation_config=generation,
        )
        return [
            self.model.tokenizer.decode(row[len(start) :], skip_special_tokens=True).strip() for row in tokens
        ]

    def would_transcribe(self, texts: Sequence[str], first: int | Sequence[int] | None = None) -> Tensor:
        """True if every given token is the most likely one after those before it: exactly when greedy
        decoding gives the text in these tokens."""
        logits, tokens = self._teacher_forced(texts)
        counted = (tokens >= 0).sum(1)
        if first is not None:
            ends = [first] * len(texts) if isinstance(first, int) else first
            counted = counted.minimum(
                torch.tensor(
                    [self._covering(t, k) for t, k in zip(texts, ends, strict=True)], device=tokens.device
                )
            )
        return (
            (logits.argmax(2) == tokens)
            | (torch.arange(tokens.shape[1], device=tokens.device) >= counted[:, None])
        ).all(1)

    def rows(self, index: Tensor) -> "TokenTranscripts":
        i = index.to(self.hidden.device)
        return TokenTranscripts(self.model, self.hidden[i], self.frames[i], self.inside[i])

    def _covering(self, text: str, characters: int) -> int:
        """Number of the text's tokens that cover this many of its characters."""
        tokens = self.model.tokenizer(text, add_special_tokens=False).input_ids
        written = [len(self.model.tokenizer.decode(tokens[:n])) for n in range(len(tokens) + 1)]
        return next((n for n, length in enumerate(written) if length >= characters), len(tokens))

    def _teacher_forced(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Logits (B, L, K) and the (B, L) target tokens: the text, the end token, and -1 after it."""
        if self._forced is None or self._forced[0] != list(texts):
            net, start = self.model.network, self.model.start
            rows = [self.model.tokens(text) for text in texts]
            longest = max(map(len, rows))
            wanted = torch.tensor(
                [row + [-1] * (longest - len(row)) for row in rows], device=self.hidden.device
            )
            begin = torch.tensor([start] * len(rows), device=self.hidden.device)
            given = torch.cat(
                [begin, wanted[:, :-1].masked_fill(wanted[:, :-1] < 0, net.config.pad_token_id)], 1
            )
            states = net.model.decoder(
                input_ids=given, encoder_hidden_states=self.hidden, encoder_attention_mask=self.inside
            )
            self._forced = list(texts), net.lm_head(states.last_hidden_state)[:, len(start) - 1 :], wanted
        return self._forced[1:]


class Seq2seqCheckpoint(Model):
    """A Speech2Text checkpoint as a model. `network` is the library's Speech2TextForConditionalGeneration."""

    output = "transcript"

    def __init__(self, net: Any, tokenizer: Any, extractor: Any, options: HuggingfaceSeq2seq):
        super().__init__()
        self.network, self.tokenizer, self.kind, self.rate_hz = (
            net,
            tokenizer,
            "clip",
            extractor.sampling_rate,
        )
        normalise = extractor.do_ceptral_normalize
        self.features = Fbank(
            extractor.num_mel_bins,
            extractor.sampling_rate,
            normalise and extractor.normalize_means,
            normalise and extractor.normalize_vars,
        )
        self.beam, self.max_tokens = (
            options.beam,
            min(options.max_tokens, net.config.max_target_positions - 1),
        )
        self.start = [net.config.decoder_start_token_id, *tokenizer.prefix_tokens]
        """Tokens before every text: the start token and, for a multilingual model, the language."""

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> TokenTranscripts:
        lengths = torch.full((len(x),), x.shape[-1]) if lengths is None else lengths
        features, frames = self.features(x, lengths)
        longest = self.network.config.max_source_positions
        if int(frames.max()) > longest:
            raise UserError(
                f"model huggingface_seq2seq: this checkpoint takes clips of up to {longest} frames of 10 ms, "
                f"got one of {int(frames.max())}. Cut the clips first."
            )
        parts: list[Tensor] = [features] * len(x)
        for n in frames.unique().tolist():
            rows = (frames == n).nonzero().squeeze(1)
            for row, part in zip(
                rows.tolist(), self.network.model.encoder(features[rows, :n]).last_hidden_state, strict=True
            ):
                parts[row] = part
        hidden = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        counts = torch.tensor([len(part) for part in parts], device=x.device)
        return TokenTranscripts(
            self, hidden, frames, torch.arange(hidden.shape[1], device=x.device) < counts[:, None]
        )

    def transcript_loss(self, outputs: Transcripts, texts: Sequence[str]) -> Tensor:
        assert isinstance(outputs, TokenTranscripts)
        return outputs.nll_per_token(texts)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text and the end token, which is omitted if the text has the maximum length."""
        tokens = self.tokenizer(text, add_special_tokens=False).input_ids
        if self.tokenizer.unk_token_id in tokens:
            raise UserError(
                f"The text {text!r} has characters that this recogniser cannot output: they are not in its "
                "vocabulary. Write the text in lower case and numbers as words."
            )
        if len(tokens) > self.max_tokens:
            raise UserError(
                f"The text {text!r} has {len(tokens)} tokens, but this recogniser outputs at most "
                f"{self.max_tokens}: shorten the text."
            )
        return [*tokens, self.network.config.eos_token_id][: self.max_tokens]


def huggingface_seq2seq(options: HuggingfaceSeq2seq) -> Model:
    who = "huggingface_seq2seq"
    place, _ = checkpoint(who, options.path, ("speech_to_text",))
    library = transformers(who)
    extractor = reading(
        who, options.path, lambda: library.AutoFeatureExtractor.from_pretrained(place, local_files_only=True)
    )
    tokenizer = reading(
        who, options.path, lambda: library.Speech2TextTokenizer.from_pretrained(place, local_files_only=True)
    )
    return Seq2seqCheckpoint(
        network(who, "Speech2TextForConditionalGeneration", place), tokenizer, extractor, options
    )
