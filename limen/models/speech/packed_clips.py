"""Clips of different lengths laid end to end, so that no padding is computed: (N, D), all frames of the
first, then those of the next.

The positions of frames are the same at every step of a search, so they are computed once for the same lengths
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


def inside(x: Tensor, frames: Tensor) -> Tensor:
    """(B, F) True on each clip's own frames of x (B, F, ...)."""
    return torch.arange(x.shape[1], device=x.device) < frames.to(x.device)[:, None]


class Laid:
    """Clips end to end on one row. Between two of them are frames of zeros, which is what a convolution puts
    at the ends of a clip that is alone; each begins where the strides of the convolutions to come meet its
    first frame."""

    def __init__(self, frames: list[int], room: list[int]):
        self.frames, self.room = frames, room
        """Each clip's own frames, and the frames until the next clip begins."""

    @staticmethod
    def over(frames: list[int], stride: int, gap: int) -> "Laid":
        """At least `gap` frames between clips, two or more: a window of 25 ms lasts as long as two and a half
        of 10 ms."""
        return Laid(frames, [*(-(-(n + gap) // stride) * stride for n in frames[:-1]), frames[-1]])

    def halved(self) -> "Laid":
        """After a convolution with stride 2."""
        return Laid([(n + 1) // 2 for n in self.frames], [(n + 1) // 2 for n in self.room])

    def features(self, x: Tensor, lengths: Tensor, mel: LogMel, augment: SpecAugment) -> Tensor:
        """Waveforms (B, T) -> (F, bands)."""
        needed = [(n - 1) * mel.hop + mel.window_size for n in self.frames]
        own = [min(sizes) for sizes in zip(needed, lengths.tolist(), strict=True)]
        parts = x.flatten().split([size for n in own for size in (n, x.shape[1] - n)])[::2]
        room = [*(n * mel.hop for n in self.room[:-1]), needed[-1]]
        row = [
            piece for part, n in zip(parts, room, strict=True) for piece in (part, x.new_zeros(n - len(part)))
        ]
        return self.blanked(augment.packed(mel(torch.cat(row)), self._sizes()))

    def blanked(self, x: Tensor) -> Tensor:
        """(F, ...) with zeros between the clips."""
        if len(self.frames) == 1:
            return x
        return x * _own(tuple(self._sizes()), x.device).view(-1, *[1] * (x.ndim - 1))

    def close(self, x: Tensor) -> Tensor:
        """(F, D) -> (N, D): without the zeros between the clips."""
        return x if len(self.frames) == 1 else torch.cat(x.split(self._sizes())[::2])

    def _sizes(self) -> list[int]:
        """A clip's own frames, zeros until the next begins, the next clip's frames, ..."""
        return [size for n, room in zip(self.frames, self.room, strict=True) for size in (n, room - n)]


@lru_cache(maxsize=64)
def _own(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """(F,) True on frames of clips."""
    with torch.inference_mode(False):  # the cached tensor may be used later with gradients
        return (
            torch.tensor([True, False] * (len(sizes) // 2)).repeat_interleave(torch.tensor(sizes)).to(device)
        )


def whole(n: int) -> int:
    """The next multiple of 16. Sums over frames or characters go in blocks; a last block of another size is
    added up in another order, and a clip beside a longer one would get other bits than alone."""
    return -(-n // 16) * 16


class Spread:
    """Clips end to end, (N, D), moved to where each has its `room` until the next begins, zeros behind it,
    and `edge` rows of zeros at both ends. There, and back."""

    def __init__(self, frames: tuple[int, ...], room: list[int], edge: int, device: torch.device):
        begins, before = accumulate(room[:-1], initial=edge), accumulate(frames[:-1], initial=0)
        shift = torch.tensor([there - here for there, here in zip(begins, before, strict=True)])
        rows = torch.arange(sum(frames))
        to = rows + shift.repeat_interleave(torch.tensor(frames))
        self.to = to.to(device)
        """(N,) where each row goes."""
        self.of = torch.full((sum(room) + 2 * edge,), len(rows)).index_copy_(0, to, rows).to(device)
        """(total,) where each row comes from; N: from nowhere, it is zero."""

    def out(self, x: Tensor) -> Tensor:
        """(N, D) -> (total, D)."""
        return _spread(x, self.of)

    def back(self, x: Tensor) -> Tensor:
        """(total, D) -> (N, D)."""
        return x.index_select(0, self.to)


@scripted
def _spread(x: Tensor, of: Tensor) -> Tensor:
    return torch.cat([x, x.new_zeros([1, x.size(1)])]).index_select(0, of)


@lru_cache(maxsize=64)
def spaced(frames: tuple[int, ...], gap: int, edge: int, device: torch.device) -> Spread:
    """`gap` rows of zeros between the clips, `edge` before the first and after the last."""
    return Spread(frames, [*(n + gap for n in frames[:-1]), frames[-1]], edge, device)


@lru_cache(maxsize=64)
def _stacked(frames: tuple[int, ...], device: torch.device) -> Spread:
    """A row of its own for every clip."""
    return Spread(frames, [whole(max(frames))] * len(frames), 0, device)


def apart(x: Tensor, frames: list[int]) -> Tensor:
    """Clips end to end, (N, D) -> (B, F, D) with zeros after each clip's own frames."""
    stacked = _stacked(tuple(frames), x.device)
    rows: Tensor = _Moved.apply(x, stacked.out, stacked.back)
    return rows.view(len(frames), -1, x.shape[1])


def joined(x: Tensor, frames: list[int]) -> Tensor:
    """(B, F, D) -> (N, D): the other way round."""
    stacked = _stacked(tuple(frames), x.device)
    rows: Tensor = _Moved.apply(x.flatten(0, 1), stacked.back, stacked.out)
    return rows


class _Moved(torch.autograd.Function):
    """Rows picked forwards and backwards; torch's own gradient of picking adds row after row to zeros."""

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
