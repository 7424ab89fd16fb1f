"""What encoders of speech share: convolutions that thin out the frames, recurrent layers, and blanked padding.

A clip in a batch gets what it gets alone: padding is blanked after every layer that looks at neighbours, and no statistic spans a batch.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from limen.audio.mel import LogMel


def blanked(x: Tensor, frames: Tensor) -> Tensor:
    """(B, F, ...) with zeros after each clip's own frames."""
    return x * inside(x, frames).view(*x.shape[:2], *[1] * (x.ndim - 2))


def inside(x: Tensor, frames: Tensor) -> Tensor:
    """(B, F) True on each clip's own frames of x (B, F, ...)."""
    return torch.arange(x.shape[1], device=x.device) < frames.to(x.device)[:, None]


def without_cudnn(x: Tensor) -> AbstractContextManager[None]:
    """cuDNN refuses gradients through a recurrent layer in evaluation mode. Its switch is one for all threads: left alone on CPUs."""
    return torch.backends.cudnn.flags(enabled=False) if x.is_cuda else nullcontext()


class Front(nn.Module):
    """Log-mel frames (B, F, bands) of 10 ms -> (B, F / 4, width) of 40 ms: two convolutions over time and frequency, each with stride 2."""

    def __init__(self, bands: int, channels: int):
        super().__init__()
        self.width = channels * ((bands + 3) // 4)
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(1, channels, 3, stride=2, padding=1), nn.Conv2d(channels, channels, 3, stride=2, padding=1)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(channels * ((bands + 1) // 2)), nn.LayerNorm(self.width)])

    def forward(self, x: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        x = blanked(x, frames).unsqueeze(1)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x, frames = convolution(x), (frames + 1) // 2
            b, channels, steps, bands = x.shape
            x = norm(x.transpose(1, 2).reshape(b, steps, channels * bands)).relu()
            x = blanked(x, frames).view(b, steps, channels, bands).transpose(1, 2)
        return x.transpose(1, 2).flatten(2), frames


class Recurrent(nn.Module):
    """Bidirectional LSTM layers, each followed by layer normalisation, (B, F, inputs) -> (B, F, 2 width)."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float):
        super().__init__()
        sizes = [inputs, *[2 * width] * (layers - 1)]
        self.forwards = nn.ModuleList([nn.LSTM(size, width, batch_first=True) for size in sizes])
        self.backwards = nn.ModuleList([nn.LSTM(size, width, batch_first=True) for size in sizes])
        self.norms = nn.ModuleList([nn.LayerNorm(2 * width) for _ in sizes])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, frames: Tensor) -> Tensor:
        rows, steps = torch.arange(len(x), device=x.device)[:, None], torch.arange(x.shape[1], device=x.device)
        # each clip's own frames turned round and its padding left behind them: a third faster than packed sequences
        turned = torch.where(inside(x, frames), frames[:, None] - 1 - steps, steps)
        with without_cudnn(x):
            for ahead, back, norm in zip(self.forwards, self.backwards, self.norms, strict=True):
                x = norm(torch.cat([ahead(x)[0], back(x[rows, turned])[0][rows, turned]], 2))
                x = self.dropout(blanked(x, frames))
        return x


class RecurrentEncoder(nn.Module):
    """Waveforms -> (B, F, size) and the (B,) frames of each clip: log-mel features, `Front`, `Recurrent`."""

    def __init__(self, bands: int, channels: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.features = LogMel(channels=bands)
        self.front = Front(bands, channels)
        self.recurrent = Recurrent(self.front.width, width, layers, dropout)
        self.size = 2 * width

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, frames = self.front(self.features(x), self.features.frames(lengths))
        return self.recurrent(x, frames), frames
