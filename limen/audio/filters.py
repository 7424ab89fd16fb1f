r"""Low-pass, high-pass and band-pass filters without delay, differentiable and batched.

A symmetric windowed sinc:

    h[n] = 2 f_c sinc(2 f_c n) w[n] / sum,   n = -N..N,  f_c = cutoff / rate

with a Blackman window w; the stop band is attenuated by 74 dB.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from limen.core.errors import UserError

WIDTH = 5.5
"""A Blackman-windowed sinc of 2 N + 1 taps passes from 1 to 0 within about WIDTH / (2 N) of the rate."""

BLOCK = 1024
"""Lengths of Fourier transforms are multiples of this."""


def low_pass(x: Tensor, cutoff_hz: float, rate_hz: int, transition_hz: float | None = None) -> Tensor:
    """(..., T) -> (..., T): the frequencies below the cutoff. Between cutoff - transition_hz / 2 and cutoff +
    transition_hz / 2 the gain falls from 1 to 0, by default over a fifth of the cutoff.

    The clip is surrounded by silence: the ends of a clip in a padded batch are filtered as if it were alone,
    and ring slightly into the padding; a caller that needs silent padding must set it to zero.
    """
    if not 0 < cutoff_hz < rate_hz / 2:
        raise UserError(
            f"A filter's cutoff must be between 0 and half the sample rate, {rate_hz / 2:g} Hz, got "
            f"{cutoff_hz:g} Hz."
        )
    h = _taps(cutoff_hz / rate_hz, (transition_hz or cutoff_hz / 5) / rate_hz).to(x)
    half, n = len(h) // 2, x.shape[-1]
    size = transform_size(n + len(h) - 1)
    y = torch.fft.irfft(torch.fft.rfft(F.pad(x, (0, size - n))) * torch.fft.rfft(h, n=size), n=size)
    return y[..., half : half + n]


def high_pass(x: Tensor, cutoff_hz: float, rate_hz: int, transition_hz: float | None = None) -> Tensor:
    """(..., T) -> (..., T): the frequencies that a low-pass removes."""
    return x - low_pass(x, cutoff_hz, rate_hz, transition_hz)


def band_pass(
    x: Tensor, low_hz: float, high_hz: float, rate_hz: int, transition_hz: float | None = None
) -> Tensor:
    """(..., T) -> (..., T): the frequencies between the two; 300 to 3400 Hz is the telephone band."""
    if low_hz >= high_hz:
        raise UserError(
            f"A band must go from a lower to a higher frequency, got {low_hz:g} to {high_hz:g} Hz."
        )
    width = transition_hz or low_hz / 5
    return low_pass(x, high_hz, rate_hz, width) - low_pass(x, low_hz, rate_hz, width)


def transform_size(n: int) -> int:
    """Length of a Fourier transform for n values: at least n, and not prime, which takes fifty times as
    long."""
    return -(-n // BLOCK) * BLOCK


def _taps(cutoff: float, transition: float) -> Tensor:
    half = math.ceil(WIDTH / 2 / transition)
    n = torch.arange(-half, half + 1, dtype=torch.float64)
    window = torch.blackman_window(2 * half + 1, periodic=False, dtype=torch.float64)
    h = torch.special.sinc(2 * cutoff * n) * window
    return h / h.sum()
