r"""Square windows of pictures, and windows of time of clips, one per sample, for random searches. Clips are
treated as pictures one pixel high.

Pyramids, of Andriushchenko et al. 2020 (https://arxiv.org/abs/1912.00049): at distance r of its centre, in
the maximum norm, one is
    sum_{k=r}^{n} (k + 1)^-q
high, n being the largest r.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem


@dataclass(frozen=True)
class Windows:
    """n windows of each sample, of the sizes `tall` x `side` (B, 1); the cells of smaller ones are
    repeated."""

    corners: Tensor
    """(B, n) number of the first pixel; they are counted row after row."""
    offsets: Tensor
    """(B, k) offset from there to every cell."""
    i: Tensor
    j: Tensor
    """(1, k) row and column inside the window."""
    tall: Tensor
    side: Tensor

    def cells(self, n: int) -> Tensor:
        """(B, 1, k) numbers of the pixels of every sample's n-th window."""
        return (self.corners[:, n, None] + self.offsets)[:, None]

    @property
    def valid(self) -> Tensor:
        """(B, 1, k) bool: false for repeated cells."""
        return ((self.i < self.tall) & (self.j < self.side))[:, None]

    def rows(self, keep: Tensor) -> "Windows":
        return Windows(
            self.corners[keep], self.offsets[keep], self.i, self.j, self.tall[keep], self.side[keep]
        )


def grid(x: Tensor) -> Tensor:
    """(B, C, H, W), for pictures and clips."""
    return x if x.dim() == 4 else x[:, None, None]


def widths(active: Problem) -> Tensor:
    """(B, 1) columns that are not padding."""
    all_of_it = torch.full((len(active), 1), active.x.shape[-1], device=active.x.device)
    return all_of_it if active.lengths is None else active.lengths.to(all_of_it)[:, None]


def windows(u: Tensor, tall: Tensor, side: Tensor, high: int, width: Tensor, wide: int) -> Windows:
    """Where the pairs of random numbers u (B, n, 2) put windows in samples of `high` rows and `width` (B, 1)
    of `wide` columns."""
    top, left = (_place(u[:, :, k], room) for k, room in enumerate((high - tall, width - side)))
    rows, columns = (torch.arange(int(size.max()), device=u.device) for size in (tall, side))
    i, j = rows.repeat_interleave(len(columns))[None], columns.repeat(len(rows))[None]
    return Windows(top * wide + left, i.minimum(tall - 1) * wide + j.minimum(side - 1), i, j, tall, side)


def _place(u: Tensor, room: Tensor) -> Tensor:
    return (u * (room + 1)).long().minimum(room)


def pyramids(
    i: Tensor, j: Tensor, tall: Tensor, side: Tensor, turned: Tensor, q: int, dtype: torch.dtype
) -> Tensor:
    """(B, k) two pyramids of opposite sign, one above the other, or side by side if `turned` (B, 1) or if
    there is one row."""
    turned = turned | (tall == 1)
    along, across, length, width = (
        torch.where(turned, *pair) for pair in ((j, i), (i, j), (side, tall), (tall, side))
    )
    half = length // 2
    second = along >= half
    centre = torch.where(second, half + (length - half) // 2, half // 2)
    distance = (along - centre).abs().maximum((across - width // 2).abs())
    largest = torch.maximum(length - half, width) // 2 + 1
    steps = torch.arange(1, int(largest.max()) + 1, device=i.device, dtype=dtype)
    sums = torch.cat([steps.new_zeros(1), steps.pow(-q).cumsum(0)])
    value = sums[largest] - sums[distance.minimum(largest)]
    return torch.where(second, -value, value)
