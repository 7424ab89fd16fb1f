r"""Mel-frequency cepstral coefficients of the Speech Commands baseline (Warden 2018,
https://arxiv.org/abs/1804.03209):

    c_k = sqrt(2 / M) sum_m cos(pi k (m + 1/2) / M) ln max( sum_f w_mf |X_f|, 1e-12 )

with TensorFlow's operators: periodic Hann window of 480, hop 160, FFT of 512, M = 40 triangles from 20 to
4000 Hz on *magnitudes*.
"""

import math

import torch
from torch import Tensor, nn

from limen.audio.mel import mel_filters
from limen.audio.stft import stft


class MFCC(nn.Module):
    """Waveforms (B, T) in [-1, 1] -> (B, frames, coefficients); one second at 16 kHz gives (B, 98, 40)."""

    window: Tensor
    filters: Tensor
    dct: Tensor

    def __init__(
        self,
        rate_hz: int = 16_000,
        window: int = 480,
        hop: int = 160,
        channels: int = 40,
        coefficients: int = 40,
        low_hz: float = 20.0,
        high_hz: float = 4000.0,
    ):
        super().__init__()
        self.hop, self.n_fft = hop, 2 ** math.ceil(math.log2(window))
        bins = self.n_fft // 2 + 1
        filters = mel_filters(channels, bins, rate_hz, low_hz, high_hz)
        # TensorFlow starts at bin int(1.5 + low / width), which leaves out the first bin above the lower edge
        filters[: int(1.5 + low_hz * self.n_fft / rate_hz)] = 0
        k, m = torch.arange(coefficients, dtype=torch.float64), torch.arange(channels, dtype=torch.float64)
        dct = math.sqrt(2 / channels) * torch.cos(math.pi / channels * (m[:, None] + 0.5) * k)
        self.register_buffer(
            "window", torch.hann_window(window, dtype=torch.float64).float(), persistent=False
        )
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("dct", dct.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # abs() of a complex zero has gradient zero in torch, and clamp stops the gradient below the floor:
        # finite on digital silence
        magnitude = stft(x, self.window, self.hop, self.n_fft).abs()
        return (magnitude @ self.filters.to(magnitude)).clamp(min=1e-12).log() @ self.dct.to(magnitude)
