"""What encoders of speech share: clips laid end to end, convolutions that thin out the frames, recurrent layers, and blanked padding.

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


class Laid:
    """Clips end to end on one row, so that no padding is computed. Between two of them are frames of zeros, which is what a convolution
    puts at the ends of a clip that is alone; each begins where the strides of the convolutions to come meet its first frame."""

    def __init__(self, frames: list[int], room: list[int]):
        self.frames, self.room = frames, room
        """Of each clip its own frames, and those until the next one begins."""

    @staticmethod
    def over(frames: list[int], stride: int, gap: int) -> "Laid":
        """At least `gap` frames between clips, two or more: a window of 25 ms lasts as long as two and a half of 10 ms."""
        return Laid(frames, [*(-(-(n + gap) // stride) * stride for n in frames[:-1]), frames[-1]])

    def halved(self) -> "Laid":
        """After a convolution with stride 2."""
        return Laid([(n + 1) // 2 for n in self.frames], [(n + 1) // 2 for n in self.room])

    def features(self, x: Tensor, lengths: Tensor, mel: LogMel) -> Tensor:
        """Waveforms (B, T) -> (1, F, bands)."""
        needed = [(n - 1) * mel.hop + mel.window_size for n in self.frames]
        own = [min(sizes) for sizes in zip(needed, lengths.tolist(), strict=True)]
        parts = x.flatten().split([size for n in own for size in (n, x.shape[1] - n)])[::2]
        room = [*(n * mel.hop for n in self.room[:-1]), needed[-1]]
        row = [piece for part, n in zip(parts, room, strict=True) for piece in (part, x.new_zeros(n - len(part)))]
        return self.blanked(mel(torch.cat(row)[None]))

    def blanked(self, x: Tensor) -> Tensor:
        """(1, F, D) with zeros between the clips."""
        if len(self.frames) == 1:
            return x
        own = [torch.arange(room, device=x.device) < n for n, room in zip(self.frames, self.room, strict=True)]
        return x * torch.cat(own)[:, None]

    def close(self, x: Tensor) -> Tensor:
        """(1, F, D) -> (N, D): without the zeros between the clips."""
        sizes = [size for n, room in zip(self.frames, self.room, strict=True) for size in (n, room - n)]
        return torch.cat(x[0].split(sizes)[::2])


def apart(x: Tensor, frames: list[int]) -> Tensor:
    """Clips end to end, (N, D) -> (B, F, D) with zeros after each clip's own frames."""
    longest = max(frames)
    pieces = [piece for part in x.split(frames) for piece in (part, x.new_zeros(longest - len(part), x.shape[1]))]
    return torch.cat(pieces).view(len(frames), longest, x.shape[1])


class Front(nn.Module):
    """Clips (B, T) -> all their frames of 40 ms end to end, (N, width), and how many are whose: log-mel frames of 10 ms, then two
    convolutions over time and frequency, each with stride 2."""

    def __init__(self, bands: int, channels: int):
        super().__init__()
        self.width = channels * ((bands + 3) // 4)
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(1, channels, 3, stride=2, padding=1), nn.Conv2d(channels, channels, 3, stride=2, padding=1)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(channels * ((bands + 1) // 2)), nn.LayerNorm(self.width)])

    def forward(self, x: Tensor, lengths: Tensor, mel: LogMel) -> tuple[Tensor, list[int]]:
        laid = Laid.over(mel.frames(lengths).tolist(), stride=4, gap=2)
        x = laid.features(x, lengths, mel).unsqueeze(1)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x, laid = convolution(x), laid.halved()
            _, channels, steps, bands = x.shape
            x = laid.blanked(norm(x.transpose(1, 2).reshape(1, steps, channels * bands)).relu())
            x = x.view(1, steps, channels, bands).transpose(1, 2)
        return laid.close(x.transpose(1, 2).flatten(2)), laid.frames


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
        turn = turned(x, frames)
        with without_cudnn(x):
            for ahead, back, norm in zip(self.forwards, self.backwards, self.norms, strict=True):
                x = norm(torch.cat([ahead(x)[0], back(x[turn])[0][turn]], 2))
                x = self.dropout(blanked(x, frames))
        return x


def turned(x: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Where the frames of x (B, F, ...) are taken from when each clip's own are turned round and its padding is left behind them. For a
    recurrent layer that goes backwards: a third faster than packed sequences."""
    rows, steps = torch.arange(len(x), device=x.device)[:, None], torch.arange(x.shape[1], device=x.device)
    return rows, torch.where(inside(x, frames), frames[:, None] - 1 - steps, steps)


class RecurrentEncoder(nn.Module):
    """Waveforms -> (B, F, size) and the (B,) frames of each clip: log-mel features, `Front`, `Recurrent`."""

    def __init__(self, bands: int, channels: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.features = LogMel(channels=bands)
        self.front = Front(bands, channels)
        self.recurrent = Recurrent(self.front.width, width, layers, dropout)
        self.size = 2 * width

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        row, own = self.front(x, lengths, self.features)
        frames = torch.tensor(own, device=x.device)
        return self.recurrent(apart(row, own), frames), frames
