"""Attention, depthwise convolutions for packed clips and position encodings of speech transformers."""

import math
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from limen.core.torchscript import scripted
from limen.models.speech.packed_clips import gapped_rows, pack, padded_size, unpack


class Attention(nn.Module):
    """Multi-head attention from x to keys and values."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.query, self.key_value, self.out = (
            heads,
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, x: Tensor, key_value: Tensor, mask: Tensor | None) -> Tensor:
        """Queries of x (B, L, D) attend to `key_value` (B, F, 2 D); `mask`, (B, 1, 1, F) or (L, F), is
        True where attention is allowed."""
        queries, keys, values = map(self._split, (self.query(x), *key_value.chunk(2, 2)))
        return self.out(_attend(queries, keys, values, mask))

    def within(self, x: Tensor, frames: list[int], mask: Tensor) -> Tensor:
        """Self-attention within each of the packed clips (N, D); `mask` (B, 1, 1, F) is added to the
        scores, -inf where attention is not allowed."""
        query, rest = self.query, self.key_value
        all_three = F.linear(x, torch.cat([query.weight, rest.weight]), torch.cat([query.bias, rest.bias]))
        queries, keys, values = (
            unpack(all_three, frames).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )
        return self.out(pack(_attend(queries, keys, values, mask), frames))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Queries (B, heads, L, d), keys and values (B, heads, F, d) to (B, L, D)."""
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).transpose(1, 2).flatten(2)


class Convolution(nn.Module):
    """The convolution module of the Conformer (section 2.2 of its paper), with layer instead of batch
    normalisation: a depthwise convolution between a gated and a plain linear map."""

    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.gated, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.depthwise, self.norm = (
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.LayerNorm(width),
        )

    def forward(self, x: Tensor, frames: list[int]) -> Tensor:
        """Packed clips (N, D) to (N, D)."""
        x, taps, bias = (
            F.glu(self.gated(x), 1),
            self.depthwise.weight[:, 0].t().contiguous(),
            self.depthwise.bias,
        )
        x = Depthwise.apply(x, taps.detach(), frames) + (
            DepthwiseParameters.apply(bias, taps, x.detach(), frames) if taps.requires_grad else bias
        )
        return self.out(F.silu(self.norm(x)))


def depthwise(x: Tensor, taps: Tensor, frames: list[int]) -> Tensor:
    """A depthwise convolution of packed clips (N, D) with kernel weights (K, D)."""
    half, sizes = len(taps) // 2, tuple(frames)
    around = gapped_rows(sizes, half, half, x.device).spread(x)
    return gapped_rows(sizes, half, 0, x.device).gather(
        weighted_windows(around, taps, len(around) - 2 * half)
    )


@scripted
def weighted_windows(row: Tensor, taps: Tensor, n: int) -> Tensor:
    """(n, D): the sum over k of rows k to k + n, times row k of `taps` (K, D)."""
    mix = row[:n] * taps[0]
    for k in range(1, taps.size(0)):
        mix.addcmul_(row[k : k + n], taps[k])
    return mix


class Depthwise(torch.autograd.Function):
    """`depthwise` with its gradient by x, three times as fast as torch's depthwise convolution in double
    precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor, frames: list[int]) -> Tensor:
        ctx.taps, ctx.frames = taps, frames
        return depthwise(x, taps, frames)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return depthwise(gradient, ctx.taps.flip(0), ctx.frames), None, None


class DepthwiseParameters(torch.autograd.Function):
    """The bias of `Depthwise` at every frame, with the gradients by bias and kernel weights; separate from
    `Depthwise`, because attacks need only the gradient by x."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, taps: Tensor, x: Tensor, frames: list[int]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.frames, ctx.taps = frames, len(taps)
        return bias.expand(len(x), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (x,), half, sizes = ctx.saved_tensors, ctx.taps // 2, tuple(ctx.frames)
        row, wanted = (
            gapped_rows(sizes, half, edge, x.device).spread(rows) for edge, rows in ((half, x), (0, gradient))
        )
        by_taps = [(row[k : k + len(wanted)] * wanted).sum(0) for k in range(ctx.taps)]
        return gradient.sum(0), torch.stack(by_taps), None, None


def positions(n: int, like: Tensor) -> Tensor:
    """Sinusoidal position encodings (n, D), section 3.5 of the paper."""
    return _positions(padded_size(n), like.shape[-1], like.dtype, like.device)[:n]


@lru_cache(maxsize=64)
def _positions(n: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    frequencies = torch.exp(
        torch.arange(0, width, 2, device=device, dtype=dtype) * (-math.log(10_000.0) / width)
    )
    angles = torch.arange(n, device=device, dtype=dtype)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)
