"""A Hugging Face recogniser with a CTC head, from a local folder: Wav2Vec2, HuBERT, Data2Vec-audio, WavLM,
UniSpeech-SAT, SEW.

Wav2Vec2 https://arxiv.org/abs/2006.11477, HuBERT https://arxiv.org/abs/2106.07447, Data2Vec
https://arxiv.org/abs/2202.03555, WavLM https://arxiv.org/abs/2110.13900, UniSpeech-SAT
https://arxiv.org/abs/2110.05752, SEW https://arxiv.org/abs/2109.06870. The clip's mean and variance are
normalised in the model, so gradients reach the waveform. The outputs of most of these networks depend on
padding (a norm over time in the front end, position convolutions over padding): those evaluate clips of equal
length together.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.models.base.model import Model
from limen.models.speech.ctc import RecogniserOptions
from limen.models.speech.huggingface import (
    checkpoint,
    checkpoint_memory_mb,
    conv_frames,
    json_file,
    network,
    padded_to,
    reading,
    receptive_field,
    standardised,
    transformers,
)
from limen.models.speech.self_supervised import FeatureTranscripts

TYPES = ("wav2vec2", "hubert", "data2vec-audio", "wavlm", "unispeech-sat", "sew")


class HuggingfaceCtc(RecogniserOptions):
    small: ClassVar[dict[str, Any] | None] = None
    example: ClassVar[dict[str, Any]] = {"path": "checkpoint"}

    weights: str = "own"
    """"own": those of the checkpoint; otherwise the path of a .safetensors or .pth file for the same
    network, as written by `limen train`."""
    path: str
    """Folder with config.json, model.safetensors, vocab.json and preprocessor_config.json, or the name of a
    downloaded checkpoint."""

    def memory_mb(self, batch_size: int) -> int:
        return checkpoint_memory_mb(self.path, batch_size)


class CtcCheckpoint(Model):
    """A CTC checkpoint as a model. `network` is the library's model; `columns` are the outputs of the
    blank and of each character of `alphabet`."""

    output = "transcript"

    def __init__(
        self, net: Any, columns: list[int], alphabet: str, rate_hz: int, normalise: bool, beam: int | None
    ):
        super().__init__()
        self.network, self.columns, self.alphabet, self.beam = net, columns, alphabet, beam
        self.kind, self.rate_hz, self.normalise = "clip", rate_hz, normalise
        config = net.config
        self.sizes = tuple(config.conv_kernel), tuple(config.conv_stride)
        squeezed = [getattr(config, "squeeze_factor", 1)]  # SEW averages this many frames
        self.least = receptive_field([*config.conv_kernel, *squeezed], [*config.conv_stride, *squeezed])
        self.frame_s = prod(config.conv_stride) / rate_hz
        self.paddable = (
            config.model_type in ("wav2vec2", "hubert", "wavlm", "unispeech-sat")
            and config.feat_extract_norm == "layer"
            and not getattr(config, "add_adapter", False)
            and not getattr(config, "conv_pos_batch_norm", False)
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> FeatureTranscripts:
        lengths = torch.full((len(x),), x.shape[-1]) if lengths is None else lengths
        x = standardised(x, lengths) if self.normalise else x
        features, frames = self._features(x, lengths.to(x.device))
        logits = self.network.lm_head(self.network.dropout(features))
        log_probs = logits.log_softmax(2)[..., self.columns]
        return FeatureTranscripts(
            features, log_probs, frames, self.alphabet, frame_s=self.frame_s, beam=self.beam
        )

    def _features(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, C) hidden states of the last layer, zero after the (B,) frames of each clip."""
        if self.paddable:
            frames, x = conv_frames(lengths, *self.sizes), padded_to(x, self.least)
            mask = torch.arange(x.shape[1], device=x.device) < lengths.clamp_min(self.least)[:, None]
            hidden = self.network.base_model(
                x, attention_mask=None if bool(mask.all()) else mask
            ).last_hidden_state
            return hidden * (torch.arange(hidden.shape[1], device=x.device) < frames[:, None])[
                :, :, None
            ], frames
        parts: list[Tensor] = [x] * len(x)
        for n in lengths.unique().tolist():
            rows = (lengths == n).nonzero().squeeze(1)
            hidden = self.network.base_model(padded_to(x[rows, :n], self.least)).last_hidden_state
            for row, part in zip(rows.tolist(), hidden, strict=True):
                parts[row] = part
        frames = torch.tensor([len(part) for part in parts], device=x.device)
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True), frames


def huggingface_ctc(options: HuggingfaceCtc) -> Model:
    who = "huggingface_ctc"
    place, config = checkpoint(who, options.path, TYPES)
    extractor = reading(
        who,
        options.path,
        lambda: transformers(who).AutoFeatureExtractor.from_pretrained(place, local_files_only=True),
    )
    columns, alphabet = _alphabet(json_file(who, place, "vocab.json"), config, options.path)
    net = network(who, "AutoModelForCTC", place)
    return CtcCheckpoint(
        net, columns, alphabet, extractor.sampling_rate, bool(extractor.do_normalize), options.beam
    )


def _alphabet(vocabulary: dict[str, Any], config: Any, path: str) -> tuple[list[int], str]:
    """The outputs of the blank (the padding token) and of each character, and the characters: "|" becomes
    the space, upper case becomes lower case."""
    blank = config.pad_token_id
    in_range = all(isinstance(number, int) and number < config.vocab_size for number in vocabulary.values())
    letters = {
        " " if token == "|" else token: number
        for token, number in vocabulary.items()
        if len(token) == 1 and number != blank
    }
    if not in_range or not letters or blank is None:
        raise UserError(
            f"model huggingface_ctc: the vocabulary of {path} does not fit: vocab.json must map single "
            f"characters to the {config.vocab_size} outputs of the network, with the blank at config.json's "
            f"pad_token_id ({blank})."
        )
    lower = [letter.lower() for letter in letters]
    if len(set(lower)) < len(lower) or any(len(letter) > 1 for letter in lower):
        lower = list(letters)  # a case-sensitive vocabulary stays as it is
    return [blank, *letters.values()], "".join(lower)
