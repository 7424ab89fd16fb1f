"""Reverberation of increasing duration. An impulse response is stretched in time after the direct sound
(Manocha et al. 2020, https://arxiv.org/abs/2001.04460, section 3.1), so that the time in which it decays by
60 dB grows evenly from 0 to `longest_s`. Its amplitude is unchanged, so its energy grows, as in a room with
harder walls.
"""

from pydantic import Field
from torch import Tensor

from limen.core.options import Options
from limen.degradations.shared.impulse import after_direct, reverberant, stretched


class Rt60(Options):
    file: str = ""
    """An impulse response; a path from the study file's folder. Empty: a simulated living room with an RT60
    of 0.5 s."""
    longest_s: float = Field(default=2.0, gt=0, le=20)
    """RT60 at strength 100."""


def rt60(x: Tensor, strength: float, rate_hz: int, options: Rt60, seed: int) -> Tensor:
    if strength == 0:
        return x
    rest, seconds = after_direct(options.file, rate_hz)
    return reverberant(x, stretched(rest, options.longest_s * strength / 100 / seconds, rate_hz))
