r"""JPEG compression of pixels: by the codec, and differentiable.

The differentiable one is ITU-T T.81 with the JFIF colours and 4:2:0 chroma, with the smooth rounding of Shin
and Song 2017:

    round(c) ~ [c] + (c - [c])^3
"""

import io
import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError
from limen.images.files import encoded

# Annex K of T.81: quantisation steps of the 8 x 8 coefficients for quality 50
LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8 for _ in range(4)),
)
TO_YCC = ((0.299, 0.587, 0.114), (-0.168735892, -0.331264108, 0.5), (0.5, -0.418687589, -0.081312411))


def compress(picture: Tensor, quality: int) -> Tensor:
    """(C, H, W) in [0, 1] -> the picture encoded as JPEG and decoded; C is 1 (grey) or 3 (RGB)."""
    from PIL import Image

    if len(picture) not in (1, 3):
        raise UserError(
            f"JPEG takes grey (1 channel) or RGB (3 channels) pictures, got {len(picture)} channels."
        )
    file = io.BytesIO(encoded(picture, "JPEG", quality=quality))
    decoded = np.atleast_3d(np.array(Image.open(file)))
    return torch.from_numpy(decoded).permute(2, 0, 1).to(picture) / 255


def smooth_round(c: Tensor) -> Tensor:
    nearest = c.detach().round()
    return nearest + (c - nearest) ** 3


def smooth_jpeg(x: Tensor, quality: int) -> Tensor:
    """(B, C, H, W) in [0, 1] -> the same shape and range, differentiable; C is 1 (grey) or 3 (RGB)."""
    height, width = x.shape[-2:]
    if x.shape[1] == 1:
        return (_plane(x * 255, steps(LUMINANCE, quality)) / 255).clamp(0, 1)
    matrix = torch.tensor(TO_YCC).to(x)
    y, chroma = torch.einsum("kc,bchw->bkhw", matrix, x * 255).split([1, 2], 1)
    even = F.pad(chroma, (0, width % 2, 0, height % 2), mode="replicate")
    small = _plane(F.avg_pool2d(even, 2) + 128, steps(CHROMINANCE, quality)) - 128
    # bilinear without aligned corners has the weights 3/4 and 1/4 of libjpeg's "fancy" upsampling
    chroma = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)[..., :height, :width]
    ycc = torch.cat([_plane(y, steps(LUMINANCE, quality)), chroma], 1)
    return (torch.einsum("ck,bkhw->bchw", torch.linalg.inv(matrix), ycc) / 255).clamp(0, 1)


@lru_cache(maxsize=32)
def steps(table: tuple[tuple[int, ...], ...], quality: int) -> Tensor:
    """(8, 8) quantisation steps: libjpeg's scaling of a table by quality."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((torch.tensor(table) * scale + 50) // 100).clamp(1, 255)


@lru_cache(maxsize=1)
def _dct() -> Tensor:
    """(8, 8) orthonormal DCT-II, one frequency per row."""
    k, n = torch.arange(8, dtype=torch.float64)[:, None], torch.arange(8, dtype=torch.float64)
    rows = torch.cos(math.pi * (2 * n + 1) * k / 16) / 2
    rows[0] /= math.sqrt(2)
    return rows


def _plane(plane: Tensor, table: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 255], compressed in 8 x 8 blocks."""
    b, c, h, w = plane.shape
    dct, table = _dct().to(plane), table.to(plane)
    padded = F.pad(plane, (0, -w % 8, 0, -h % 8), mode="replicate") - 128
    blocks = padded.unflatten(3, (-1, 8)).unflatten(2, (-1, 8)).transpose(3, 4)  # (B, C, rows, columns, 8, 8)
    coefficients = smooth_round(dct @ blocks @ dct.T / table) * table
    back = (dct.T @ coefficients @ dct).transpose(3, 4).reshape(b, c, *padded.shape[2:])
    return back[..., :h, :w] + 128
