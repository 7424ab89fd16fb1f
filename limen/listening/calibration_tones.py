"""Generated sounds: for setting the volume, and for telling headphones from loudspeakers.

The tones are those of Woods et al. 2017, https://doi.org/10.3758/s13414-017-1361-2: 200 Hz, one second. One
of three is 6 dB quieter; another is in opposite phase on the two sides, which cancels over loudspeakers,
so that it seems the quietest there.
"""

import math

import torch
from torch import Tensor

from limen.audio.filters import band_pass
from limen.core.errors import UserError
from limen.core.seeds import generator

RATE_HZ = 48_000
SOFT_DB = -24.0
"""Level of the soft sound for setting the volume, relative to the loud one."""
QUIET_DB = -6.0
TONE_HZ = 200.0
RAMP_S = 0.1


def generated_sound(name: str, power_dbfs: float) -> Tensor:
    """(channels, T) at RATE_HZ. The loud sound and the normal tone have the mean power of the study's
    sounds."""
    if name in ("limen:loud", "limen:soft"):
        # noise in the band of speech
        noise = torch.randn(2 * RATE_HZ, generator=generator(0, "level"), dtype=torch.float64)
        x = _ramped(band_pass(noise, 100, 7000, RATE_HZ))
        level = power_dbfs + (SOFT_DB if name == "limen:soft" else 0)
        return (x * 10 ** (level / 20) / x.square().mean().sqrt())[None].float()
    if name.startswith("limen:tone:") and name.rpartition(":")[2] in ("normal", "quiet", "antiphase"):
        kind = name.rpartition(":")[2]
        t = torch.arange(RATE_HZ, dtype=torch.float64) / RATE_HZ
        x = _ramped(torch.sin(2 * math.pi * TONE_HZ * t)) * math.sqrt(2) * 10 ** (power_dbfs / 20)
        left = x * 10 ** (QUIET_DB / 20) if kind == "quiet" else x
        return torch.stack([left, -left if kind == "antiphase" else left]).float()
    raise UserError(
        f"There is no generated sound {name!r}. There are limen:loud, limen:soft, limen:tone:normal, "
        "limen:tone:quiet and limen:tone:antiphase."
    )


def _ramped(x: Tensor) -> Tensor:
    n = round(RAMP_S * RATE_HZ)
    ramp = torch.sin(torch.linspace(0, math.pi / 2, n, dtype=x.dtype)).square()
    y = x.clone()
    y[:n] *= ramp
    y[-n:] *= ramp.flip(0)
    return y
