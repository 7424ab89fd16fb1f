"""Gain of one frequency band, without delay, as by a slider of an equaliser."""

from pydantic import Field, model_validator
from torch import Tensor

from limen.audio.filters import band_pass
from limen.core.options import Options


class Eq(Options):
    low_hz: float = Field(default=1000.0, gt=0)
    """Lower edge of the band."""
    high_hz: float = Field(default=4000.0, gt=0)
    """Upper edge of the band; cut off just below half the sample rate."""
    largest_db: float = Field(default=15.0, ge=-60, le=60)
    """Gain of the band at strength 100; negative: softer."""

    @model_validator(mode="after")
    def _rising(self) -> "Eq":
        if self.low_hz >= self.high_hz:
            raise ValueError(f"low_hz ({self.low_hz:g}) must be below high_hz ({self.high_hz:g}).")
        return self


def eq(x: Tensor, strength: float, rate_hz: int, options: Eq, seed: int) -> Tensor:
    high_hz = min(options.high_hz, 0.49 * rate_hz)
    if strength == 0 or options.low_hz >= high_hz:  # the clip has no such frequencies
        return x
    return x + (10 ** (options.largest_db * strength / 100 / 20) - 1) * band_pass(
        x, options.low_hz, high_hz, rate_hz
    )
