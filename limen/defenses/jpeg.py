"""Compress every picture as JPEG before the model evaluates it. Guo et al. 2018,
https://arxiv.org/abs/1711.00117.

The picture is encoded and decoded in memory by a real codec. An attacker differentiates it as the identity
(BPDA), or as a JPEG with smooth rounding (Shin and Song 2017); the model evaluates the real one either way.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.types import Kind
from limen.defenses.base.defended import StraightThrough
from limen.defenses.base.options import DefenseOptions
from limen.images.jpeg import compress, smooth_jpeg
from limen.models.base.model import Model


class Jpeg(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)

    quality: int = Field(default=75, ge=1, le=100)
    """Quality of the compression on libjpeg's scale."""
    gradient: Literal["identity", "differentiable"] = "identity"
    """What an attacker differentiates instead of the codec: the identity, or a JPEG with smooth rounding."""


class Compressed(StraightThrough):
    def __init__(self, model: Model, options: Jpeg):
        super().__init__(model, options)
        self.options = options

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        return torch.stack([compress(picture, self.options.quality) for picture in x.detach()])

    def stand_in(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        return x if self.options.gradient == "identity" else smooth_jpeg(x, self.options.quality)


def jpeg(model: Model, options: Jpeg) -> Model:
    return Compressed(model, options)
