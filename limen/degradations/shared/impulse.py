"""The reverberant part of impulse responses, relative to the direct sound.

The direct sound is replaced by a single impulse of the same energy, so that a response without reverberation
leaves a clip unchanged.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from limen.audio.files import read_clip
from limen.audio.rooms import Rooms, convolved, measured_rt60_s, response
from limen.core.errors import UserError
from limen.core.seeds import generator

DIRECT_S = 0.0025
"""Sound within this time of the strongest arrival is direct: no wall is nearer than 40 cm."""
ROOM_S = 0.5
"""RT60 of the default room: 6 x 4.5 x 3 m, one metre from the source."""
GRAIN_S = 0.01


@lru_cache(maxsize=32)
def after_direct(file: str, rate_hz: int) -> tuple[Tensor, float]:
    """(T,) response after the direct sound, which is an impulse of 1 at time 0, and its RT60 in seconds."""
    if file:
        h = read_clip(file, rate_hz).double()
    else:
        size, source, microphone = (
            torch.tensor([v], dtype=torch.float64)
            for v in ([6.0, 4.5, 3.0], [2.0, 1.5, 1.6], [2.8, 2.1, 1.5])
        )
        noise = torch.randn(
            1, round(1.1 * ROOM_S * rate_hz), generator=generator(0, "impulse response"), dtype=torch.float64
        )
        h = response(
            Rooms(size, source, microphone, torch.tensor([ROOM_S], dtype=torch.float64)), rate_hz, noise
        )[0]
    peak, window = int(h.abs().argmax()), round(DIRECT_S * rate_hz)
    direct = h[max(0, peak - window) : peak + window + 1].square().sum().sqrt()
    rest = h[peak:].clone()
    rest[: window + 1] = 0
    if not float(rest.abs().max()):
        raise UserError(
            f"{file}: has no sound after the direct sound; expected an impulse response of a room."
        )
    seconds = float(measured_rt60_s(rest[None], rate_hz))
    if not math.isfinite(seconds) or seconds <= 0:
        raise UserError(f"{file}: does not decay like a room; expected an impulse response of a room.")
    return rest / direct, seconds


def reverberant(x: Tensor, rest: Tensor) -> Tensor:
    """Add the reverberation to the clip, cut to the length of the clip."""
    return x + convolved(x[None], rest.to(x)[None])[0]


def stretched(rest: Tensor, factor: float, rate_hz: int) -> Tensor:
    """Stretch a decay in time by `factor` without a change of pitch, by overlapping grains of 10 ms (shorter
    if time is compressed).

    The energy is multiplied by `factor`. Windows are sines, whose squares add up to 1: neighbouring
    grains of a reverberant tail are nearly independent, unless the factor is near 1.
    """
    hop = max(1, round(min(factor, 1.0) * GRAIN_S * rate_hz / 2))
    window = torch.sin((torch.arange(2 * hop, dtype=rest.dtype) + 0.5) / (2 * hop) * math.pi)
    count = math.ceil(len(rest) * factor / hop) + 1
    padded = torch.nn.functional.pad(rest, (hop, 3 * hop))
    out = rest.new_zeros((count + 1) * hop)
    for k in range(count):
        start = min(round((k - 1) * hop / factor) + hop, len(rest) + hop)
        out[k * hop : (k + 2) * hop] += window * padded[max(start, 0) : max(start, 0) + 2 * hop]
    out = out[hop:]
    return out * (factor * rest.square().sum() / out.square().sum().clamp_min(1e-30)).sqrt()
