"""Low-pass filter whose cutoff falls in equal ratios from half the sample rate to `cutoff_hz`. Cutoffs of
3500 and 7000 Hz give the anchors of MUSHRA."""

from pydantic import Field
from torch import Tensor

from limen.audio import filters
from limen.core.options import Options
from limen.degradations.shared.scale import geometric


class LowPass(Options):
    cutoff_hz: float = Field(default=3500.0, gt=0)
    """Cutoff at strength 100. A clip without higher frequencies is unchanged."""


def low_pass(x: Tensor, strength: float, rate_hz: int, options: LowPass, seed: int) -> Tensor:
    if strength == 0 or options.cutoff_hz >= rate_hz / 2:
        return x
    return filters.low_pass(x, geometric(rate_hz / 2, options.cutoff_hz, strength), rate_hz)
