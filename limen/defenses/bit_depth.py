r"""Fewer shades per pixel: feature squeezing. Xu et al. 2018, https://arxiv.org/abs/1704.01155:

    x' = round(x (2^bits - 1)) / (2^bits - 1)

The attacker takes the rounding for the identity (BPDA).
"""

from pydantic import Field
from torch import Tensor

from limen.core.options import Options
from limen.defenses.base.defended import Defended, check_kind, straight_through
from limen.models.base.model import Model


class BitDepth(Options):
    bits: int = Field(default=4, ge=1, le=16)
    """Bits per colour value; the paper takes 1 for digits, 4 or 5 for photographs."""


class Squeezed(Defended):
    def __init__(self, model: Model, options: BitDepth):
        super().__init__(model)
        self.steps = 2**options.bits - 1

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        return straight_through(x, (x * self.steps).round().clamp(0, self.steps) / self.steps)


def bit_depth(model: Model, options: BitDepth) -> Model:
    check_kind(model, "picture", "bit_depth", "quantisation, mp3, low_pass")
    return Squeezed(model, options)
