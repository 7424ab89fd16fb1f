"""Gain: louder or softer. In a study that sets all sounds to the same power, the gain is applied
afterwards."""

from pydantic import Field
from torch import Tensor

from limen.core.options import Options


class Gain(Options):
    largest_db: float = Field(default=-12.0, ge=-60, le=60)
    """Gain at strength 100; negative: softer."""


def gain(x: Tensor, strength: float, rate_hz: int, options: Gain, seed: int) -> Tensor:
    return x if strength == 0 else x * 10 ** (options.largest_db * strength / 100 / 20)
