"""A small CTC recogniser of characters: log-mel features, two convolutions, a bidirectional GRU.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf; the order of layers is that of Deep
Speech 2, https://arxiv.org/abs/1512.02595. One frame is 20 ms. The outputs for a clip do not depend on its
batch: no layer uses other clips or padding.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from limen.audio.mel import LogMel
from limen.models.base.model import Model
from limen.models.base.spec_augment import SpecAugment
from limen.models.speech.ctc import ALPHABET, Recogniser, RecogniserOptions
from limen.models.speech.encoders import Dropout, convolved
from limen.models.speech.packed_clips import PackedClips, unpack
from limen.models.speech.recurrent import Order, both_ways


class CtcSmall(RecogniserOptions):
    small: ClassVar[dict[str, Any] | None] = {"width": 16}

    bands: int = Field(default=40, ge=1, le=65_536)
    """Mel bands of the features."""
    width: int = Field(default=128, ge=1, le=65_536)
    """Channels of the convolutions and of the GRU in each direction."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations dropped around the GRU in training."""


class CtcNetwork(nn.Module):
    def __init__(self, options: CtcSmall):
        super().__init__()
        w = options.width
        self.features, self.spec_augment = LogMel(channels=options.bands), SpecAugment()
        self.conv1 = nn.Conv1d(options.bands, w, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(w, w, 5, padding=2)
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.gru = nn.GRU(w, w, batch_first=True, bidirectional=True)
        self.dropout = Dropout(options.dropout)
        self.linear = nn.Linear(2 * w, len(ALPHABET) + 1)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = PackedClips.with_gaps(
            self.features.frames(lengths).tolist(), stride=2, gap=5
        )  # leaves a gap of two frames after the stride
        x = packed.features(x, lengths, self.features, self.spec_augment)
        x, packed = convolved(x, self.conv1), packed.halved()
        x = convolved(packed.zero_gaps(self.norm1(x).relu()), self.conv2)
        x, frames = self.dropout(self.norm2(packed.remove_gaps(x)).relu(), packed.frames), packed.frames
        x = self.dropout(both_ways(x, Order.of(frames, x), self.gru.all_weights), frames)
        return self.linear(unpack(x, frames)).log_softmax(2), torch.tensor(frames, device=x.device)


def ctc_small(options: CtcSmall) -> Model:
    return Recogniser(CtcNetwork(options), rate_hz=16_000, frame_s=0.02, beam=options.beam)
