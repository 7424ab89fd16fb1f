"""Kaldi's log-mel filter bank with mean and variance normalised over the clip, as transformers computes it
for Speech2Text."""

import torch
from torch import Tensor, nn

from limen.audio.mel import mel_filters
from limen.audio.stft import framed_power

WINDOW, HOP, N_FFT, LOW_HZ, FLOOR = 400, 160, 512, 20.0, 1.192092955078125e-07
"""25 ms every 10 ms at 16 kHz; the floor under the mel power is float32's epsilon."""


class Fbank(nn.Module):
    """Clips (B, T) in [-1, 1] and their (B,) lengths to features (B, frames, bands), zero after the frames of
    each clip, and the (B,) numbers of frames.

    In each frame: mean removal, pre-emphasis 0.97, Povey's window (Hann to the power 0.85), power spectrum,
    mel triangles, logarithm. Computed in double precision: quiet bands next to loud ones lose five digits in
    single precision.
    """

    window: Tensor
    filters: Tensor

    def __init__(self, bands: int, rate_hz: int, means: bool, variances: bool):
        super().__init__()
        self.means, self.variances = means, variances
        window = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64) ** 0.85
        self.register_buffer("window", window, persistent=False)
        self.register_buffer(
            "filters",
            mel_filters(bands, N_FFT // 2 + 1, rate_hz, LOW_HZ, rate_hz // 2).double(),
            persistent=False,
        )

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        frames = (lengths.to(x.device) - WINDOW).clamp_min(0) // HOP + 1
        if x.shape[1] < WINDOW:
            x = torch.nn.functional.pad(x, (0, WINDOW - x.shape[1]))
        parts = (32768 * x.double()).unfold(1, WINDOW, HOP)
        parts = parts - parts.mean(2, keepdim=True)
        parts = parts - 0.97 * torch.cat([parts[..., :1], parts[..., :-1]], 2)
        power = framed_power(parts * self.window.to(parts.device), N_FFT)
        mel = (power @ self.filters.to(parts.device)).clamp_min(FLOOR).log()
        mine = (torch.arange(mel.shape[1], device=x.device) < frames[:, None])[:, :, None]
        n = frames[:, None, None]
        if self.means:
            mel = mel - (mel * mine).sum(1, keepdim=True) / n
        if self.variances:
            mean = (mel * mine).sum(1, keepdim=True) / n
            variance = ((mel - mean).square() * mine).sum(1, keepdim=True) / n
            mel = (
                mel / variance.clamp_min(1e-10).sqrt()
            )  # a constant band (silence) becomes 0; the library divides by zero
        return (mel * mine).to(x.dtype), frames
