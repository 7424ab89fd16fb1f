"""Deep Speech 2, a CTC recogniser of characters: log-mel features, two strided convolutions, bidirectional
LSTM layers.

Amodei et al. 2016, https://arxiv.org/abs/1512.02595. One frame is 40 ms. Departs from the paper: layer
instead of batch normalisation, so that the outputs for a clip do not depend on its batch, and 3x3
convolutions. The defaults are those of the shipped small network; width 1024, layers 5, bands 80 is the size
that papers attack.
"""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from limen.models.base.model import Model
from limen.models.speech.ctc import ALPHABET, Recogniser, RecogniserOptions
from limen.models.speech.encoders import RecurrentEncoder


class DeepSpeech2(RecogniserOptions):
    small: ClassVar[dict[str, Any] | None] = {"channels": 4, "width": 16, "layers": 1}

    bands: int = Field(default=40, ge=1, le=65_536)
    """Mel bands of the features."""
    channels: int = Field(default=32, ge=1, le=65_536)
    """Channels of the convolutions."""
    width: int = Field(default=128, ge=1, le=65_536)
    """Units of each LSTM layer in each direction."""
    layers: int = Field(default=3, ge=1, le=1000)
    """Bidirectional LSTM layers."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations dropped after each LSTM layer in training."""


class DeepSpeech2Network(nn.Module):
    def __init__(self, options: DeepSpeech2):
        super().__init__()
        self.encoder = RecurrentEncoder(
            options.bands, options.channels, options.width, options.layers, options.dropout
        )
        self.features = self.encoder.features
        self.linear = nn.Linear(self.encoder.size, len(ALPHABET) + 1)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, frames = self.encoder(x, lengths)
        return self.linear(hidden).log_softmax(2), frames


def deepspeech2(options: DeepSpeech2) -> Model:
    return Recogniser(DeepSpeech2Network(options), rate_hz=16_000, frame_s=0.04, beam=options.beam)
