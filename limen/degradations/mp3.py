"""MP3 compression by LAME at bit rates that fall in equal ratios from the highest to the lowest that the
sample rate allows."""

from pydantic import Field
from torch import Tensor

from limen.audio import codecs
from limen.audio.resample import resample
from limen.core.options import Options
from limen.degradations.shared.scale import geometric, within_full_scale


class Mp3(Options):
    weakest_kbps: float | None = Field(default=None, gt=0)
    """Bit rate just above strength 0; null, or more than MP3 has: the highest."""
    strongest_kbps: float | None = Field(default=None, gt=0)
    """Bit rate at strength 100; null, or less than MP3 has: the lowest, 8 kbit/s up to 24 kHz and 32 kbit/s
    above."""


def mp3(x: Tensor, strength: float, rate_hz: int, options: Mp3, seed: int) -> Tensor:
    if strength == 0:
        return x
    # the next higher of the few sample rates that MP3 knows
    coded_hz = min((hz for hz in codecs.MP3_KBPS if hz >= rate_hz), default=max(codecs.MP3_KBPS))
    low, high = codecs.MP3_KBPS[coded_hz]
    kbps = geometric(
        min(options.weakest_kbps or high, high), max(options.strongest_kbps or low, low), strength
    )
    y = within_full_scale(
        resample(x, rate_hz, coded_hz), lambda z: codecs.mp3(z, coded_hz, min(max(kbps, low), high))
    )
    return resample(y, coded_hz, rate_hz)[: len(x)]
