r"""Round amplitudes to multiples of q on the 16-bit scale. Yang et al. 2018,
https://arxiv.org/abs/1809.10875:

    x' = q round(x / q),  x the 16-bit sample

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

FULL_SCALE = 32768


class Quantisation(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("clip",)

    q: int = Field(default=256, ge=1, le=FULL_SCALE)
    """Step between amplitudes, in units of a 16-bit sample; the paper uses 128, 256, 512 and 1024."""


class Quantised(StraightThrough):
    def __init__(self, model: Model, options: Quantisation):
        super().__init__(model, options)
        self.step = options.q / FULL_SCALE

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        # zero is a multiple of q, so padding stays zero; 1 may round up to a multiple outside the range
        return ((x / self.step).round() * self.step).clamp(-1, 1)


def quantisation(model: Model, options: Quantisation) -> Model:
    return Quantised(model, options)
