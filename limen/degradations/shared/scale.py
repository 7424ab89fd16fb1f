"""Scales shared by the axes: from a strength to a value, and noise at a given SNR."""

from collections.abc import Callable

import torch
from torch import Tensor


def between(weakest: float, strongest: float, strength: float) -> float:
    """Linear interpolation from the value at strength 0 to that at 100."""
    return weakest + (strongest - weakest) * strength / 100


def geometric(weakest: float, strongest: float, strength: float) -> float:
    """Geometric interpolation, for frequencies and bit rates."""
    return weakest * (strongest / weakest) ** (strength / 100)


def at_snr(x: Tensor, noise: Tensor, snr_db: float) -> Tensor:
    """Add the noise at this signal-to-noise ratio. A silent clip and silent noise are left alone."""
    power, unwanted = x.square().mean(), noise.square().mean()
    if not float(power) or not float(unwanted):
        return x
    return x + noise * (power / unwanted * 10 ** (-snr_db / 10)).sqrt()


def within_full_scale(x: Tensor, code: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a coder that clips at 1: a louder clip is attenuated first and amplified again afterwards."""
    peak = torch.clamp(x.abs().amax(), min=1.0)
    return code(x / peak) * peak
