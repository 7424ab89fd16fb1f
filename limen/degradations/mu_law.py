"""Quantisation on the logarithmic mu-law scale with fewer bits, from 16 to 2, rounded to whole bits. G.711
has 8."""

from pydantic import Field
from torch import Tensor

from limen.audio import codecs
from limen.core.options import Options
from limen.degradations.shared.scale import between, within_full_scale


class MuLaw(Options):
    weakest_bits: int = Field(default=16, ge=2, le=16)
    """Bits just above strength 0."""
    strongest_bits: int = Field(default=2, ge=2, le=16)
    """Bits at strength 100."""


def mu_law(x: Tensor, strength: float, rate_hz: int, options: MuLaw, seed: int) -> Tensor:
    if strength == 0:
        return x
    bits = round(between(options.weakest_bits, options.strongest_bits, strength))
    return within_full_scale(x, lambda y: codecs.mu_law(y, bits))
