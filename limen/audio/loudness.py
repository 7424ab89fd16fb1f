r"""Loudness of a clip on the 16-bit scale. Vadillo & Santana 2022, https://arxiv.org/abs/2001.08444,
equations 2 and 12:

    dB_max(x) = max_i 20 log10 |x_i|        dB_mean(x) = 20 log10 (1/d) sum_i |x_i|

with integer samples: x in [-1, 1] is multiplied by 32768, as in files. Full scale is 90.3 dB, digital silence
minus infinity.
"""

from typing import Literal

import torch
from torch import Tensor

from limen.core.types import valid

FULL_SCALE = 32768.0

Loudness = Literal["low", "medium", "high"]


def mean_db(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """(B, T) or (T,) -> (B,) or (): decibels of the mean magnitude of the valid samples."""
    mask = valid(x, lengths)
    if mask is None:
        magnitude = x.abs().mean(-1)
    else:
        magnitude = (x.abs() * mask).sum(-1) / mask.sum(-1)
    return 20 * torch.log10(FULL_SCALE * magnitude)


def peak_db(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """(B, T) or (T,) -> (B,) or (): decibels of the largest magnitude of the valid samples."""
    mask = valid(x, lengths)
    magnitude = x.abs() if mask is None else x.abs() * mask
    return 20 * torch.log10(FULL_SCALE * magnitude.amax(-1))


def loudness(db: float) -> Loudness:
    """The levels of the paper: "low" below a mean of 50 dB, "medium" from 50 to 70 dB, "high" above 70 dB."""
    return "low" if db < 50 else "medium" if db <= 70 else "high"
