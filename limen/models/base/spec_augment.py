"""The place in a network at which training may change its features: warped bands, and blanked runs of frames
and bands (SpecAugment, Park et al. 2019, https://arxiv.org/abs/1904.08779)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class SpecAugment(nn.Module):
    """The identity, unless a training sets `change`. It has no weights, so weights files do not know it."""

    change: Callable[[int, Tensor], Tensor] | None = None
    """Number of the clip in the batch and its features (frames, bands) -> changed features of the same
    shape."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, frames, bands)."""
        if self.change is None or not self.training:
            return x
        return torch.stack([self.change(i, clip) for i, clip in enumerate(x)])

    def packed(self, x: Tensor, sizes: list[int]) -> Tensor:
        """(frames, bands) of clips end to end; `sizes`: a clip's own frames, those of the gap behind it, the
        next clip's frames, ..."""
        if self.change is None or not self.training:
            return x
        parts = list(x.split(sizes))
        parts[::2] = [self.change(i, clip) for i, clip in enumerate(parts[::2])]
        return torch.cat(parts)
