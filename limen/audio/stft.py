"""Short-time Fourier transform in torch: windowed frames, no padding at the edges, differentiable everywhere."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def frame_count(samples: int | Tensor, window: int, hop: int) -> int | Tensor:
    """How many whole windows fit into so many samples; at least one, because a shorter clip is padded to one window."""
    if isinstance(samples, Tensor):
        return ((samples - window).clamp(min=0) // hop) + 1
    return max(samples - window, 0) // hop + 1


def frames(x: Tensor, window: int, hop: int) -> Tensor:
    """(..., T) -> (..., frames, window). Samples after the last whole window are left out."""
    return F.pad(x, (0, max(window - x.shape[-1], 0))).unfold(-1, window, hop)


def stft(x: Tensor, window: Tensor, hop: int, n_fft: int | None = None) -> Tensor:
    """(..., T) -> complex (..., frames, n_fft // 2 + 1). `window` holds the weights; a longer n_fft pads each frame with zeros."""
    return torch.fft.rfft(frames(x, len(window), hop) * window.to(x), n=n_fft)


def power(x: Tensor, window: Tensor, hop: int, n_fft: int | None = None) -> Tensor:
    """(..., T) -> (..., frames, n_fft // 2 + 1): squared magnitudes of `stft`, with a gradient of zero at digital silence."""
    return framed_power(frames(x, len(window), hop) * window.to(x), n_fft or len(window))


def framed_power(framed: Tensor, n_fft: int) -> Tensor:
    """(..., window) weighted frames -> (..., n_fft // 2 + 1)."""
    power: Tensor = _Power.apply(framed, n_fft)
    return power


class _Power(torch.autograd.Function):
    """|rfft|^2. The gradient goes back through a real transform of half the spectrum: with it, three times faster than autograd's way."""

    @staticmethod
    def forward(ctx: Any, framed: Tensor, n_fft: int) -> Tensor:
        spectrum = torch.fft.rfft(framed, n=n_fft)
        ctx.save_for_backward(spectrum)
        ctx.size = framed.shape[-1], n_fft
        return spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (spectrum,), (window, n_fft) = ctx.saved_tensors, ctx.size
        slope = gradient * spectrum  # irfft takes the inner bins twice, which is the 2 of the square; those that stand alone need their own
        slope[..., 0] *= 2
        if n_fft % 2 == 0:
            slope[..., -1] *= 2
        return torch.fft.irfft(slope, n=n_fft, norm="forward")[..., :window], None
