r"""Reduce the number of levels per colour value. Xu et al. 2018, https://arxiv.org/abs/1704.01155:

    x' = round(x (2^bits - 1)) / (2^bits - 1)

An attacker differentiates the rounding as the identity (BPDA).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.core.types import Kind
from limen.defenses.base.defended import StraightThrough
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class BitDepth(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)

    bits: int = Field(default=4, ge=1, le=16)
    """Bits per colour value; the paper uses 1 for digits, 4 or 5 for photographs."""


class Squeezed(StraightThrough):
    def __init__(self, model: Model, options: BitDepth):
        super().__init__(model, options)
        self.steps = 2**options.bits - 1

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        return (x * self.steps).round().clamp(0, self.steps) / self.steps


def bit_depth(model: Model, options: BitDepth) -> Model:
    return Squeezed(model, options)
