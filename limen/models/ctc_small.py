"""A small recogniser that spells: log-mel features, two convolutions, a bidirectional GRU, CTC over characters.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf; the order of layers is that of Deep Speech 2, https://arxiv.org/abs/1512.02595.
One frame is 20 ms. A clip in a batch gets what it gets alone: no layer lets it see its neighbours or padding.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from limen.audio.mel import LogMel
from limen.models._ctc import ALPHABET, Recogniser, RecogniserOptions
from limen.models._encoders import Laid, apart, turned, without_cudnn
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
        laid = Laid.over(self.features.frames(lengths).tolist(), stride=2, gap=5)  # two frames remain after the stride
        x, laid = self.conv1(laid.features(x, lengths, self.features).mT).mT, laid.halved()
        x = self.conv2(laid.blanked(self.norm1(x).relu()).mT).mT
        x = apart(self.dropout(self.norm2(laid.close(x)).relu()), laid.frames)
        frames = torch.tensor(laid.frames, device=x.device)
        turn = turned(x, frames)
        with without_cudnn(x):
            x = torch.cat([self._run(x, ""), self._run(x[turn], "_reverse")[turn]], 2)
        return self.linear(self.dropout(x)).log_softmax(2), frames

    def _run(self, x: Tensor, direction: str) -> Tensor:
        """One direction of the GRU, from the first frame to the last."""
        weights = [getattr(self.gru, f"{name}_l0{direction}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        start = x.new_zeros(1, len(x), self.gru.hidden_size)
        return torch.gru(x, start, weights, True, 1, 0.0, self.training, False, True)[0]


def ctc_small(options: CtcSmall) -> Model:
    return Recogniser(CtcNetwork(options), rate_hz=16_000, frame_s=0.02, beam=options.beam)
