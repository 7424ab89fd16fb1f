r"""Coloured noise, from barely audible to as loud as the clip. Power per hertz is proportional to f^a (flat
below 20 Hz, which is inaudible),
    white a = 0, pink a = -1, brown a = -2, blue a = 1, violet a = 2
and strength maps to the ratio of mean powers, SNR = weakest_db + (strongest_db - weakest_db) s / 100.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.audio.filters import transform_size
from limen.core.options import Options
from limen.core.seeds import generator
from limen.degradations.shared.scale import at_snr, between

EXPONENT = {"white": 0, "pink": -1, "brown": -2, "blue": 1, "violet": 2}
AUDIBLE_HZ = 20.0


class Noise(Options):
    colour: Literal["white", "pink", "brown", "blue", "violet"] = "white"
    """Spectrum of the noise."""
    weakest_db: float = Field(default=60.0, ge=-20, le=120)
    """Signal-to-noise ratio just above strength 0."""
    strongest_db: float = Field(default=0.0, ge=-60, le=120)
    """Signal-to-noise ratio at strength 100."""


def noise(x: Tensor, strength: float, rate_hz: int, options: Noise, seed: int) -> Tensor:
    if strength == 0:
        return x
    snr_db = between(options.weakest_db, options.strongest_db, strength)
    return at_snr(x, coloured(len(x), rate_hz, options.colour, seed).to(x), snr_db)


def coloured(samples: int, rate_hz: int, colour: str, seed: int) -> Tensor:
    """(samples,) of noise in double precision."""
    size = transform_size(samples)
    white = torch.randn(size, generator=generator(seed, "noise"), dtype=torch.float64)
    f = torch.fft.rfftfreq(size, 1 / rate_hz, dtype=torch.float64).clamp_min(AUDIBLE_HZ)
    return torch.fft.irfft(torch.fft.rfft(white) * (f / 1000) ** (EXPONENT[colour] / 2), n=size)[:samples]
