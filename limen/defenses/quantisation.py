r"""Amplitudes rounded to multiples of q on the 16-bit scale. Yang et al. 2018,
https://arxiv.org/abs/1809.10875:

    x' = q round(x / q),  x the 16-bit sample

The attacker takes the rounding for the identity (BPDA).
"""

from pydantic import Field
from torch import Tensor

from limen.core.options import Options
from limen.defenses.base.defended import Defended, check_kind, straight_through
from limen.models.base.model import Model

FULL_SCALE = 32768


class Quantisation(Options):
    q: int = Field(default=256, ge=1, le=FULL_SCALE)
    """Step of the amplitudes that are left, in units of a 16-bit sample; the paper tries 128, 256, 512 and
    1024."""


class Quantised(Defended):
    def __init__(self, model: Model, options: Quantisation):
        super().__init__(model)
        self.step = options.q / FULL_SCALE

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        # zero is a multiple of q, so padding stays zero; 1 may round up to the next multiple, out of the
        # range
        return straight_through(x, ((x / self.step).round() * self.step).clamp(-1, 1))


def quantisation(model: Model, options: Quantisation) -> Model:
    check_kind(model, "clip", "quantisation", "bit_depth, jpeg, crop_rescale")
    return Quantised(model, options)
