"""Mel filter banks and log-mel features, per sample: independent of the rest of the batch."""

import math

import torch
from torch import Tensor, nn

from limen.audio.stft import frame_count, power


def hz_to_mel(hz: Tensor) -> Tensor:
    """The HTK scale, 1127 ln(1 + f / 700)."""
    return 1127.0 * torch.log1p(hz / 700.0)


def mel_filters(channels: int, bins: int, rate_hz: int, low_hz: float, high_hz: float) -> Tensor:
    """(bins, channels) triangles of height 1, evenly spaced and linear on the mel scale; `bins` of a spectrum
    from 0 to rate_hz / 2."""
    low, high = hz_to_mel(torch.tensor([low_hz, high_hz], dtype=torch.float64))
    spacing = (high - low) / (channels + 1)
    centres = low + spacing * torch.arange(1, channels + 1, dtype=torch.float64)
    mels = hz_to_mel(torch.linspace(0, rate_hz / 2, bins, dtype=torch.float64))
    return (1 - (mels[:, None] - centres).abs() / spacing).clamp(min=0).float()


class LogMel(nn.Module):
    """Waveforms (B, T) in [-1, 1] -> (B, frames, channels): log of mel-weighted power, scaled to about [-1,
    1.5].

    The floor is added before the logarithm: at digital silence the power and its gradient are both zero, so
    the gradient of the features is zero and not undefined.
    """

    window: Tensor
    filters: Tensor

    def __init__(
        self,
        channels: int = 80,
        rate_hz: int = 16_000,
        window_ms: float = 25.0,
        hop_ms: float = 10.0,
        low_hz: float = 20.0,
        high_hz: float | None = None,
        floor: float = 1e-6,
    ):
        super().__init__()
        self.window_size, self.hop = round(rate_hz * window_ms / 1000), round(rate_hz * hop_ms / 1000)
        self.n_fft = 2 ** math.ceil(math.log2(self.window_size))
        self.channels, self.floor = channels, floor
        self.register_buffer(
            "window", torch.hann_window(self.window_size, dtype=torch.float64).float(), persistent=False
        )
        filters = mel_filters(channels, self.n_fft // 2 + 1, rate_hz, low_hz, high_hz or rate_hz / 2)
        self.register_buffer("filters", filters, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        weighted = power(x, self.window, self.hop, self.n_fft) @ self.filters.to(x)
        # ln(1e-6) = -13.8 is digital silence and about +9 the loudest tone: a fixed scale instead of
        # statistics of the sample
        return (weighted + self.floor).log() / 7.0 + 1.0

    def frames(self, lengths: Tensor) -> Tensor:
        """(B,) samples -> (B,) frames without padding, at least one."""
        count = frame_count(lengths, self.window_size, self.hop)
        assert isinstance(count, Tensor)
        return count
