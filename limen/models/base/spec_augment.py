"""A layer that lets training change the features: warped bands, and runs of frames and bands set to zero
(SpecAugment, Park et al. 2019, https://arxiv.org/abs/1904.08779)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class SpecAugment(nn.Module):
    """The identity unless training sets `change`. The layer has no weights, so it does not appear in
    weights files."""

    change: Callable[[int, Tensor], Tensor] | None = None
    """Function from the index of a clip in the batch and its features (frames, bands) to changed features
    of the same shape."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, frames, bands)."""
        if self.change is None or not self.training:
            return x
        return torch.stack([self.change(i, clip) for i, clip in enumerate(x)])

    def packed(self, x: Tensor, sizes: list[int]) -> Tensor:
        """Augment packed clips (frames, bands). `sizes` alternate between the frames of a clip and those
        of the gap after it."""
        if self.change is None or not self.training:
            return x
        parts = list(x.split(sizes))
        parts[::2] = [self.change(i, clip) for i, clip in enumerate(parts[::2])]
        return torch.cat(parts)
