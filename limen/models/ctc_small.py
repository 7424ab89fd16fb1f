"""A small recogniser that spells: log-mel features, two convolutions, a bidirectional GRU, CTC over characters.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf; the order of layers is that of Deep Speech 2, https://arxiv.org/abs/1512.02595.
One frame is 20 ms. Padding is blanked after every layer, so a clip in a batch gets what it gets alone.
"""

from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limen.audio.mel import LogMel
from limen.models._ctc import ALPHABET, Recogniser, RecogniserOptions
from limen.models._encoders import blanked, without_cudnn
from limen.models._model import Model


class CtcSmall(RecogniserOptions):
    bands: int = Field(default=40, ge=1)
    """Mel bands of the features."""
    width: int = Field(default=128, ge=1)
    """Channels of the convolutions and of the GRU in each direction."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations dropped around the GRU in training."""


class CtcNetwork(nn.Module):
    def __init__(self, options: CtcSmall):
        super().__init__()
        w = options.width
        self.features = LogMel(channels=options.bands)
        self.conv1 = nn.Conv1d(options.bands, w, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(w, w, 5, padding=2)
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.gru = nn.GRU(w, w, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(options.dropout)
        self.linear = nn.Linear(2 * w, len(ALPHABET) + 1)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        frames = self.features.frames(lengths)
        x = blanked(self.features(x), frames)
        frames = (frames + 1) // 2
        x = blanked(self.norm1(self.conv1(x.mT).mT).relu(), frames)
        x = self.dropout(blanked(self.norm2(self.conv2(x.mT).mT).relu(), frames))
        packed = pack_padded_sequence(x, frames.cpu(), batch_first=True, enforce_sorted=False)
        with without_cudnn(x):
            x, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.linear(self.dropout(x)).log_softmax(2), frames


def ctc_small(options: CtcSmall) -> Model:
    return Recogniser(CtcNetwork(options), rate_hz=16_000, frame_s=0.02, beam=options.beam)
