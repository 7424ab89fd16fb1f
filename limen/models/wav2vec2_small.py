"""A small wav2vec 2.0: convolutions over the waveform, a transformer, and a CTC head or the contrastive task
of its pre-training.

Baevski et al. 2020, https://arxiv.org/abs/2006.11477. One frame is 20 ms. Departs from the paper in size and
in the front end: three convolutions with layer normalisation instead of seven, the first with a stride of 20
samples. Needs the package transformers, whose classes and parameter names it uses.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limen.models.base.load import ZOO, load_state, read_state
from limen.models.base.model import Model
from limen.models.speech.ctc import ALPHABET, RecogniserOptions
from limen.models.speech.huggingface import (
    conv_frames,
    padded_to,
    receptive_field,
    standardised,
    transformers,
)
from limen.models.speech.self_supervised import Encoded, FeatureTranscripts, contextual, spans

KERNELS, STRIDES = (80, 8, 8), (20, 4, 4)
"""Kernels and strides of the convolutions: 320 samples, 20 ms at 16 kHz, from frame to frame."""


class Wav2vec2Small(RecogniserOptions):
    small: ClassVar[dict[str, Any] | None] = {
        "channels": [8, 16, 16],
        "width": 32,
        "layers": 2,
        "codes": 8,
    }

    head: Literal["ctc", "pretraining"] = "ctc"
    """"ctc": outputs characters; "pretraining": learns without transcripts to identify its masked frames
    among others (weights: zoo:ssl)."""
    encoder: str | None = None
    """Initial weights of the encoder: "zoo:ssl", or the path of a .safetensors file of either head; null:
    those of `weights`."""
    freeze_front: bool = False
    """Keep the weights of the convolutions fixed in training, as in the paper's fine-tuning."""
    channels: list[Annotated[int, Field(ge=1, le=65_536)]] = Field(
        default=[64, 128, 128], min_length=3, max_length=3
    )
    """Channels of the three convolutions."""
    width: int = Field(default=128, ge=16, le=65_536, multiple_of=16)
    """Size of the transformer's states."""
    layers: int = Field(default=4, ge=1, le=1000)
    """Layers of the transformer."""
    heads: int = Field(default=4, ge=1, le=65_536)
    """Attention heads; must divide the width."""
    dropout: float = Field(default=0.05, ge=0, lt=1)
    """Share of activations dropped in training."""
    span_starts: float = Field(default=0.065, ge=0, lt=1)
    """Training: probability that a frame starts a masked span."""
    span_frames: int = Field(default=10, ge=1)
    """Training: frames in a masked span."""
    codes: int = Field(default=64, ge=2, le=65_536)
    """Pre-training: entries in each of the two codebooks."""
    temperature: float = Field(default=1.0, gt=0)
    """Pre-training: temperature of the Gumbel softmax that selects codes."""
    negatives: int = Field(default=50, ge=1)
    """Pre-training: distractors of each masked frame."""

    @model_validator(mode="after")
    def _check(self) -> "Wav2vec2Small":
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")
        if self.encoder is not None and self.weights != "random":
            raise ValueError(
                "encoder gives the initial weights of a model to be trained: it must be used with weights: "
                "random"
            )
        return self


class SmallWav2vec2(Model):
    """`network` is the library's Wav2Vec2ForCTC or Wav2Vec2ForPreTraining."""

    def __init__(self, network: Any, options: Wav2vec2Small):
        super().__init__()
        self.network, self.options, self.kind, self.rate_hz = network, options, "clip", 16_000
        self.output = "embedding" if options.head == "pretraining" else "transcript"

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> FeatureTranscripts | Encoded:
        lengths = torch.full((len(x),), x.shape[-1]) if lengths is None else lengths
        frames = conv_frames(lengths.to(x.device), KERNELS, STRIDES)
        x = padded_to(standardised(x, lengths), receptive_field(KERNELS, STRIDES))
        extracted = self.network.wav2vec2.feature_extractor(x).mT
        starts, length = self.options.span_starts, self.options.span_frames
        if self.options.head == "pretraining":
            return Encoded(self.network, extracted, frames, starts, length)
        mask = None
        if self.training and starts:
            mask = spans(torch.rand(extracted.shape[:2], device=x.device), frames, starts, length)
        features = contextual(self.network.wav2vec2, extracted, frames, mask)
        log_probs = self.network.lm_head(self.network.dropout(features)).log_softmax(2)
        return FeatureTranscripts(features, log_probs, frames, ALPHABET, beam=self.options.beam)


def wav2vec2_small(options: Wav2vec2Small) -> Model:
    library = transformers("wav2vec2_small")
    d = options.dropout
    config = library.Wav2Vec2Config(
        vocab_size=len(ALPHABET) + 1,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=4 * options.width,
        conv_dim=options.channels,
        conv_kernel=list(KERNELS),
        conv_stride=list(STRIDES),
        conv_bias=True,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embeddings=32,
        num_conv_pos_embedding_groups=8,
        hidden_dropout=d,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=d,
        final_dropout=d,
        feat_quantizer_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.065,
        num_codevectors_per_group=options.codes,
        num_codevector_groups=2,
        codevector_dim=options.width,
        proj_codevector_dim=options.width,
        num_negatives=options.negatives,
        diversity_loss_weight=0.1,
    )
    network = (library.Wav2Vec2ForCTC if options.head == "ctc" else library.Wav2Vec2ForPreTraining)(config)
    network.wav2vec2.feature_extractor._requires_grad = (
        False  # otherwise it refuses samples that require a gradient, in training mode
    )
    if options.head == "pretraining":
        network.quantizer.temperature = options.temperature
    if options.encoder is not None:
        path = Path(options.encoder).expanduser()
        if options.encoder.startswith("zoo:"):
            path = ZOO / f"wav2vec2_small_{options.encoder.removeprefix('zoo:')}.safetensors"
        state = {
            k.removeprefix("wav2vec2."): v for k, v in read_state(path).items() if k.startswith("wav2vec2.")
        }
        load_state(network.wav2vec2, state, f"model wav2vec2_small: the encoder's weights {path.name}")
    if options.freeze_front:
        network.wav2vec2.feature_extractor.requires_grad_(False)
    return SmallWav2vec2(network, options)
