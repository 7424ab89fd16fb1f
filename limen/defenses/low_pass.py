"""High frequencies taken away before the model hears the clip: voices carry their words below 4 kHz,
perturbations do not keep to that.

The filter is a windowed sinc without delay; it is linear, so the attacker differentiates the defence itself.
"""

import torch
from pydantic import Field
from torch import Tensor

from limen.audio import filters
from limen.core.options import Options
from limen.core.types import valid
from limen.defenses.base.defended import Defended, check_kind, rate_of
from limen.models.base.model import Model


class LowPass(Options):
    cutoff_hz: float = Field(default=3000, gt=0)
    """Frequencies above this are removed; at most half the sample rate."""
    transition_hz: float | None = Field(default=None, gt=0)
    """Width of the band around the cutoff in which the gain falls from 1 to 0; null takes a fifth of the
    cutoff."""


class Filtered(Defended):
    def __init__(self, model: Model, options: LowPass):
        super().__init__(model)
        self.options, self.rate = options, rate_of(model, "low_pass")
        self.transform(torch.zeros(1, 1), None)  # a cutoff that the sample rate does not hold is said now

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        y = filters.low_pass(x, self.options.cutoff_hz, self.rate, self.options.transition_hz).clamp(-1, 1)
        mask = valid(x, lengths)
        return y if mask is None else y * mask  # the filter rings on into the padding


def low_pass(model: Model, options: LowPass) -> Model:
    check_kind(model, "clip", "low_pass", "jpeg, bit_depth, crop_rescale")
    return Filtered(model, options)
