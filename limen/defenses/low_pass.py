"""Remove high frequencies before the model evaluates the clip: speech is intelligible below 4 kHz, while
perturbations use the full band.

The filter is a windowed sinc without delay. It is linear, so an attacker differentiates the defence itself.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.audio import filters
from limen.core.types import Kind, valid
from limen.defenses.base.defended import Transform, rate_of
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class LowPass(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("clip",)

    cutoff_hz: float = Field(default=3000, gt=0)
    """Frequencies above this are removed; at most half the sample rate."""
    transition_hz: float | None = Field(default=None, gt=0)
    """Width of the band around the cutoff in which the gain falls from 1 to 0; null: a fifth of the
    cutoff."""


class Filtered(Transform):
    def __init__(self, model: Model, options: LowPass):
        super().__init__(model, options)
        self.options, self.rate = options, rate_of(model, "low_pass")
        # refuses a cutoff above half the sample rate before any work is done
        self.transform(torch.zeros(1, 1), None, None)

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        y = filters.low_pass(x, self.options.cutoff_hz, self.rate, self.options.transition_hz).clamp(-1, 1)
        mask = valid(x, lengths)
        return y if mask is None else y * mask  # the filter rings into the padding


def low_pass(model: Model, options: LowPass) -> Model:
    return Filtered(model, options)
