"""Layers shared by speech encoders, for packed clips: strided convolutions and recurrent layers.

The outputs for a clip do not depend on its batch: gaps of zeros separate clips in every layer that uses
neighbouring frames, and no statistic is taken over a batch. In single precision they are bitwise equal,
because every layer computes each row, or each clip, in an order that does not depend on their number:
convolutions are matrix products of windows (torch selects its algorithm by the size of the batch).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from limen.audio.mel import LogMel
from limen.core.torchscript import scripted
from limen.models.base.spec_augment import SpecAugment
from limen.models.speech.packed_clips import PackedClips, unpack
from limen.models.speech.recurrent import Order, both_ways


class Dropout(nn.Dropout):
    """Dropout that also receives the frames of each clip, so that an attack with dropout can assign rows
    to clips."""

    def forward(self, x: Tensor, frames: list[int] | None = None) -> Tensor:
        return super().forward(x) if self.training else x


def convolved(x: Tensor, layer: nn.Module) -> Tensor:
    """A convolution over frames x (F, C), or over frames and bands (F, bands, C), as one matrix product of
    windows."""
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    weight, one = layer.weight, x.ndim == 2
    size, stride, padding = (
        (*v, *w) if one else v
        for v, w in ((layer.kernel_size, (1,)), (layer.stride, (1,)), (layer.padding, (0,)))
    )
    windows = _Windows.apply(x[:, None] if one else x, size, stride, padding)
    out = F.linear(
        windows.flatten(0, 1), weight.movedim(1, -1).flatten(1), layer.bias
    )  # two-dimensional: otherwise torch computes one product per frame
    return out if one else out.view(*windows.shape[:2], -1)


class _Windows(torch.autograd.Function):
    """The windows (F', bands', window * C) of x (F, bands, C), with zero padding. Forward and backward
    copy the data only once, without a graph node for every tap."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
    ) -> Tensor:
        ctx.given = x.shape, size, stride, padding
        around = F.pad(x, (0, 0, padding[1], padding[1], padding[0], padding[0]))
        return around.unfold(0, size[0], stride[0]).unfold(1, size[1], stride[1]).movedim(2, -1).flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _windows_back(gradient, *map(list, ctx.given)), None, None, None


@scripted
def _windows_back(
    gradient: Tensor, shape: list[int], size: list[int], stride: list[int], padding: list[int]
) -> Tensor:
    steps, bands, taps = gradient.size(0), gradient.size(1), gradient.unflatten(2, [size[0], size[1], -1])
    slope = gradient.new_zeros([shape[0] + 2 * padding[0], shape[1] + 2 * padding[1], shape[2]])
    for i in range(size[0]):
        for j in range(size[1]):
            slope[i :: stride[0], j :: stride[1]][:steps, :bands].add_(taps[:, :, i, j])
    return slope[padding[0] : padding[0] + shape[0], padding[1] : padding[1] + shape[1]]


class Front(nn.Module):
    """Clips (B, T) to packed frames of 40 ms, (N, width), and the number of frames of each clip: log-mel
    frames of 10 ms, then two convolutions over time and frequency, each with stride 2."""

    def __init__(self, bands: int, channels: int):
        super().__init__()
        self.channels, self.width = channels, channels * ((bands + 3) // 4)
        self.spec_augment = SpecAugment()
        self.convolutions = nn.ModuleList(
            [
                nn.Conv2d(1, channels, 3, stride=2, padding=1),
                nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            ]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(channels * ((bands + 1) // 2)), nn.LayerNorm(self.width)])

    def forward(self, x: Tensor, lengths: Tensor, mel: LogMel) -> tuple[Tensor, list[int]]:
        packed = PackedClips.with_gaps(mel.frames(lengths).tolist(), stride=4, gap=2)
        x = packed.features(x, lengths, mel, self.spec_augment).unsqueeze(2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x, packed = convolved(x, convolution), packed.halved()
            assert isinstance(norm, nn.LayerNorm)
            # the weights of the norm are ordered by channel, x is ordered by band
            scale, shift = (
                p.view(self.channels, -1).t().reshape(x.shape[1:]) for p in (norm.weight, norm.bias)
            )
            x = packed.zero_gaps(F.layer_norm(x, x.shape[1:], scale, shift, norm.eps).relu())
        return packed.remove_gaps(x.transpose(1, 2).flatten(1)), packed.frames


class Recurrent(nn.Module):
    """Bidirectional LSTM layers, each followed by layer normalisation, for packed clips: (N, inputs) to
    (N, 2 width)."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float):
        super().__init__()
        sizes = [inputs, *[2 * width] * (layers - 1)]
        self.forwards = nn.ModuleList([nn.LSTM(size, width, batch_first=True) for size in sizes])
        self.backwards = nn.ModuleList([nn.LSTM(size, width, batch_first=True) for size in sizes])
        self.norms = nn.ModuleList([nn.LayerNorm(2 * width) for _ in sizes])
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, frames: list[int]) -> Tensor:
        order = Order.of(frames, x)
        for ahead, back, norm in zip(self.forwards, self.backwards, self.norms, strict=True):
            weights = [w for layer in (ahead, back) if isinstance(layer, nn.LSTM) for w in layer.all_weights]
            x = self.dropout(norm(both_ways(x, order, weights)), frames)
        return x


class RecurrentEncoder(nn.Module):
    """Waveforms to hidden states (B, F, size) and the (B,) frames of each clip: log-mel features, `Front`,
    `Recurrent`."""

    def __init__(self, bands: int, channels: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.features = LogMel(channels=bands)
        self.front = Front(bands, channels)
        self.recurrent = Recurrent(self.front.width, width, layers, dropout)
        self.size = 2 * width

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        row, frames = self.front(x, lengths, self.features)
        return unpack(self.recurrent(row, frames), frames), torch.tensor(frames, device=x.device)
