r"""Change the sample rate with a windowed sinc, differentiable and batched.

With up/down = to_hz/from_hz in lowest terms, insert up-1 zeros after each sample, low-pass with h, keep every
down-th:
    y[m] = sum_n x[n] h[m down - n up]
Most of those products are with inserted zeros. Writing m = j up + p leaves, for each phase p, an ordinary
convolution of x with stride down and the taps h[p down - k up]:
    y[j up + p] = sum_k x[j down + k] h[p down - k up]
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError

ZEROS = 32
"""Zero crossings of the sinc on each side, in samples of the lower rate."""
ROLLOFF = 0.945
"""Cutoff as a share of the lower Nyquist frequency; with BETA and ZEROS the stop band starts near that
frequency."""
BETA = 9.0
"""Parameter of the Kaiser window; the stop band is attenuated by about 90 dB."""
PHASES = 256
"""Phases per convolution. The taps of neighbouring phases overlap, so that a group needs little more memory
than one phase; all phases at once need much more: 44,099 Hz to 16 kHz would take 3 GB of taps."""

LONGEST, FINEST = 2**27, 200_000
"""Samples of the result, and the larger of the two rates in lowest terms (its kernel has 64 taps per unit),
at most. A damaged header can require more than any memory."""


def resample(x: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """(..., T) -> (..., ceil(T to_hz / from_hz))."""
    if from_hz == to_hz or x.shape[-1] == 0:
        return x
    common = math.gcd(from_hz, to_hz)
    up, down = to_hz // common, from_hz // common
    frames = -(-x.shape[-1] * up // down)
    if max(up, down) > FINEST or frames > LONGEST:
        raise UserError(
            f"A clip of {x.shape[-1]:,} samples at {from_hz:,} Hz cannot be brought to {to_hz:,} Hz: at most "
            f"{LONGEST:,} samples are made, and {from_hz} / {to_hz} in lowest terms must stay below "
            f"{FINEST:,}."
        )
    blocks = -(-frames // up)
    rows = x.reshape(-1, 1, x.shape[-1])
    parts = []
    for first, taps in _taps(up, down):
        span = (blocks - 1) * down + taps.shape[-1]
        piece = F.pad(rows, (max(0, -first), max(0, first + span - x.shape[-1])))[..., max(0, first) :][
            ..., :span
        ]
        parts.append(F.conv1d(piece, taps.to(x), stride=down))
    y = torch.cat(parts, 1).transpose(1, 2)  # (rows, blocks, up)
    return y.reshape(*x.shape[:-1], blocks * up)[..., :frames]


def kernel(up: int, down: int) -> Tensor:
    """(2 half + 1,) float64: the low-pass h on the fine grid of rate up * from_hz, with gain up for the
    inserted zeros."""
    widest = max(up, down)
    half = ZEROS * widest
    t = torch.arange(-half, half + 1, dtype=torch.float64)
    window = torch.kaiser_window(2 * half + 1, periodic=False, beta=BETA, dtype=torch.float64)
    h = torch.special.sinc(t * ROLLOFF / widest) * window
    return up * h / h.sum()


@lru_cache(maxsize=16)
def _taps(up: int, down: int) -> list[tuple[int, Tensor]]:
    """For each group of phases: the first k, and (phases, 1, K) taps h[p down - k up]."""
    h = kernel(up, down)
    half = len(h) // 2
    groups = []
    for p in torch.arange(up).split(PHASES):
        first = -(
            (half - int(p[0]) * down) // up
        )  # smallest k with p down - k up <= half for the first phase
        last = (half + int(p[-1]) * down) // up
        at = p[:, None] * down - torch.arange(first, last + 1) * up + half
        taps = torch.where((at >= 0) & (at < len(h)), h[at.clamp(0, len(h) - 1)], 0.0)
        groups.append((first, taps[:, None]))
    return groups
