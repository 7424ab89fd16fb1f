"""Short-time Fourier transform in torch: windowed frames, no padding at the edges, differentiable everywhere."""

import torch
from torch import Tensor
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
