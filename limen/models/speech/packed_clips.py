"""Packed clips: the frames of clips of different lengths in one sequence (N, D), so that nothing is computed
on padding.

Index tensors depend only on the lengths, which stay the same during a search, so they are cached
(`lru_cache`).
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from limen.audio.mel import LogMel
from limen.core.torchscript import scripted
from limen.models.base.spec_augment import SpecAugment


def frame_mask(x: Tensor, frames: Tensor) -> Tensor:
    """(B, F) True on the frames of each clip in x (B, F, ...)."""
    return torch.arange(x.shape[1], device=x.device) < frames.to(x.device)[:, None]


class PackedClips:
    """The layout of packed clips with gaps. Gaps hold frames of zeros, which are the padding that a
    convolution adds at the ends of a single clip; each clip starts at a multiple of the total stride of
    the convolutions that follow."""

    def __init__(self, frames: list[int], spacing: list[int]):
        self.frames, self.spacing = frames, spacing
        """Frames of each clip, and frames from its start to the start of the next clip."""

    @staticmethod
    def with_gaps(frames: list[int], stride: int, gap: int) -> "PackedClips":
        """The layout with at least `gap` frames between clips. `gap` must be 2 or more, because a window
        of 25 ms spans two and a half frames of 10 ms."""
        return PackedClips(frames, [*(-(-(n + gap) // stride) * stride for n in frames[:-1]), frames[-1]])

    def halved(self) -> "PackedClips":
        """The layout after a convolution with stride 2."""
        return PackedClips([(n + 1) // 2 for n in self.frames], [(n + 1) // 2 for n in self.spacing])

    def features(self, x: Tensor, lengths: Tensor, mel: LogMel, augment: SpecAugment) -> Tensor:
        """Waveforms (B, T) to packed features (F, bands)."""
        needed = [(n - 1) * mel.hop + mel.window_size for n in self.frames]
        valid = [min(sizes) for sizes in zip(needed, lengths.tolist(), strict=True)]
        parts = x.flatten().split([size for n in valid for size in (n, x.shape[1] - n)])[::2]
        spacing = [*(n * mel.hop for n in self.spacing[:-1]), needed[-1]]
        row = [
            piece
            for part, n in zip(parts, spacing, strict=True)
            for piece in (part, x.new_zeros(n - len(part)))
        ]
        return self.zero_gaps(augment.packed(mel(torch.cat(row)), self._sizes()))

    def zero_gaps(self, x: Tensor) -> Tensor:
        """(F, ...) with the gaps set to zero."""
        if len(self.frames) == 1:
            return x
        return x * _on_clips(tuple(self._sizes()), x.device).view(-1, *[1] * (x.ndim - 1))

    def remove_gaps(self, x: Tensor) -> Tensor:
        """(F, D) to (N, D), without the gaps."""
        return x if len(self.frames) == 1 else torch.cat(x.split(self._sizes())[::2])

    def _sizes(self) -> list[int]:
        """Sizes of clip, gap, clip, gap, ... in frames."""
        return [
            size for n, spacing in zip(self.frames, self.spacing, strict=True) for size in (n, spacing - n)
        ]


@lru_cache(maxsize=64)
def _on_clips(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """(F,) True on frames of clips, False on gaps."""
    with torch.inference_mode(False):  # the cached tensor may be used later with gradients
        return (
            torch.tensor([True, False] * (len(sizes) // 2)).repeat_interleave(torch.tensor(sizes)).to(device)
        )


def padded_size(n: int) -> int:
    """n rounded up to a multiple of 16. Sums over frames or characters are computed in blocks; the order
    of the sum in a smaller last block differs, and a clip batched with a longer one would get other bits
    than alone."""
    return -(-n // 16) * 16


class RowMap:
    """The map of packed clips (N, D) to rows in which each clip has `spacing` rows, filled up with zeros, and
    `edge` rows of zeros at both ends; and its inverse."""

    def __init__(self, frames: tuple[int, ...], spacing: list[int], edge: int, device: torch.device):
        begins, before = accumulate(spacing[:-1], initial=edge), accumulate(frames[:-1], initial=0)
        shift = torch.tensor([there - here for there, here in zip(begins, before, strict=True)])
        rows = torch.arange(sum(frames))
        to = rows + shift.repeat_interleave(torch.tensor(frames))
        self.to = to.to(device)
        """(N,) new position of each row."""
        self.of = torch.full((sum(spacing) + 2 * edge,), len(rows)).index_copy_(0, to, rows).to(device)
        """(total,) old position of each row; N for rows of zeros."""

    def spread(self, x: Tensor) -> Tensor:
        """(N, D) to (total, D)."""
        return _spread(x, self.of)

    def gather(self, x: Tensor) -> Tensor:
        """(total, D) to (N, D)."""
        return x.index_select(0, self.to)


@scripted
def _spread(x: Tensor, of: Tensor) -> Tensor:
    return torch.cat([x, x.new_zeros([1, x.size(1)])]).index_select(0, of)


@lru_cache(maxsize=64)
def gapped_rows(frames: tuple[int, ...], gap: int, edge: int, device: torch.device) -> RowMap:
    """The layout with `gap` rows of zeros between clips, and `edge` rows before the first and after the
    last."""
    return RowMap(frames, [*(n + gap for n in frames[:-1]), frames[-1]], edge, device)


@lru_cache(maxsize=64)
def _padded_rows(frames: tuple[int, ...], device: torch.device) -> RowMap:
    """The layout of a padded batch, with the same number of rows for every clip."""
    return RowMap(frames, [padded_size(max(frames))] * len(frames), 0, device)


def unpack(x: Tensor, frames: list[int]) -> Tensor:
    """Packed clips (N, D) to a batch (B, F, D), with zeros after the frames of each clip."""
    rows_of = _padded_rows(tuple(frames), x.device)
    rows: Tensor = _SelectRows.apply(x, rows_of.spread, rows_of.gather)
    return rows.view(len(frames), -1, x.shape[1])


def pack(x: Tensor, frames: list[int]) -> Tensor:
    """A batch (B, F, D) to packed clips (N, D)."""
    rows_of = _padded_rows(tuple(frames), x.device)
    rows: Tensor = _SelectRows.apply(x.flatten(0, 1), rows_of.gather, rows_of.spread)
    return rows


class _SelectRows(torch.autograd.Function):
    """Row selection whose gradient is again a row selection; torch's own gradient adds every row to a
    tensor of zeros."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None
