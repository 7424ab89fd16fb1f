"""What axes share: from a strength to a number, and noise at a given distance from a clip."""

from collections.abc import Callable

import torch
from torch import Tensor


def between(weakest: float, strongest: float, strength: float) -> float:
    """Evenly from what strength 0 would give to what 100 gives."""
    return weakest + (strongest - weakest) * strength / 100


def geometric(weakest: float, strongest: float, strength: float) -> float:
    """The same, in equal ratios: for frequencies and bit rates."""
    return weakest * (strongest / weakest) ** (strength / 100)


def at_snr(x: Tensor, noise: Tensor, snr_db: float) -> Tensor:
    """x with the noise added so that mean powers are this far apart. To silence, or from silent noise,
    nothing is added."""
    power, unwanted = x.square().mean(), noise.square().mean()
    if not float(power) or not float(unwanted):
        return x
    return x + noise * (power / unwanted * 10 ** (-snr_db / 10)).sqrt()


def within_full_scale(x: Tensor, code: Callable[[Tensor], Tensor]) -> Tensor:
    """Through a coder that clips at 1: what is louder (noise added before) is turned down for it, and up
    again afterwards."""
    peak = torch.clamp(x.abs().amax(), min=1.0)
    return code(x / peak) * peak
