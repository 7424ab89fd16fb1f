"""JPEG compression of every picture before the model sees it. Guo et al. 2018,
https://arxiv.org/abs/1711.00117.

The file is made and read in memory by a real codec. The attacker takes it for the identity (BPDA), or follows
the gradient of a JPEG whose rounding is smooth (Shin and Song 2017); what the model sees is the real one in
both cases.
"""

import io
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.options import Options
from limen.defenses.base.defended import Defended, check_kind, straight_through
from limen.images.jpeg import smooth_jpeg
from limen.models.base.model import Model


class Jpeg(Options):
    quality: int = Field(default=75, ge=1, le=100)
    """Of the compression, as libjpeg counts it."""
    gradient: Literal["identity", "differentiable"] = "identity"
    """What an attacker differentiates instead of the codec: nothing at all, or a JPEG with smooth
    rounding."""


class Compressed(Defended):
    def __init__(self, model: Model, options: Jpeg):
        super().__init__(model)
        self.options = options

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        y = torch.stack([compress(picture, self.options.quality) for picture in x.detach()])
        return straight_through(
            x if self.options.gradient == "identity" else smooth_jpeg(x, self.options.quality), y
        )


def compress(picture: Tensor, quality: int) -> Tensor:
    """(C, H, W) in [0, 1] -> the same after a JPEG file; C is 1 (grey) or 3 (RGB)."""
    from PIL import Image

    if picture.shape[0] not in (1, 3):
        raise UserError(
            f"The defense jpeg takes grey (1 channel) or RGB (3 channels) pictures, but {picture.shape[0]} "
            "channels came."
        )
    pixels = (picture.cpu().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "JPEG", quality=quality)
    decoded = torch.from_numpy(np.array(Image.open(file))).reshape(*pixels.shape).permute(2, 0, 1)
    return decoded.to(picture) / 255


def jpeg(model: Model, options: Jpeg) -> Model:
    check_kind(model, "picture", "jpeg", "quantisation, mp3, low_pass")
    return Compressed(model, options)
