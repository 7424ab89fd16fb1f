"""Audio codecs: real MP3 and Vorbis encoders, mu-law and fewer bits, aligned with the input to the sample."""

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limen.core.errors import UserError

MP3_KBPS = {
    8000: (8, 64),
    11025: (8, 64),
    12000: (8, 64),
    16000: (8, 160),
    22050: (8, 160),
    24000: (8, 160),
    32000: (32, 320),
    44100: (32, 320),
    48000: (32, 320),
}
"""Sample rates of MP3, with the lowest and highest bit rate of each."""

_DELAY = 1105
"""Samples that encoder (576) and decoder (529) add at the beginning. In a stream with frames large enough the
decoder removes them; below about 48 kbit/s it does not."""

_GAIN = 0.95
"""Factor by which LAME attenuates the signal at constant bit rate, as headroom for ringing."""


def mp3(x: Tensor, rate_hz: int, bitrate_kbps: float = 64, lengths: Tensor | None = None) -> Tensor:
    """(..., T) in [-1, 1] -> (..., T): encoded by LAME at the constant bit rate nearest to the given one, and
    decoded. No gradient."""
    if rate_hz not in MP3_KBPS:
        raise UserError(
            f"MP3 has the sample rates {', '.join(map(str, MP3_KBPS))} Hz, got {rate_hz}. Resample first."
        )
    low, high = MP3_KBPS[rate_hz]
    if not low <= bitrate_kbps <= high:
        raise UserError(
            f"MP3 at {rate_hz} Hz has bit rates from {low} to {high} kbit/s, got {bitrate_kbps:g}."
        )
    level = min((high - bitrate_kbps) / (high - low), 0.9999)  # libsndfile refuses 1

    def code(clip: np.ndarray) -> np.ndarray:
        y = _through_file(
            clip,
            rate_hz,
            format="MP3",
            subtype="MPEG_LAYER_III",
            compression_level=level,
            bitrate_mode="CONSTANT",
        )
        return (y[_DELAY:] if len(y) > len(clip) else y) / _GAIN

    return _each(x, lengths, code)


def vorbis(x: Tensor, rate_hz: int, compression: float = 0.6, lengths: Tensor | None = None) -> Tensor:
    """(..., T) in [-1, 1] -> (..., T): encoded as Ogg Vorbis, from compression 0 (best quality) to 1
    (smallest), and decoded. No gradient."""
    if not 0 <= compression <= 1:
        raise UserError(f"The compression of Vorbis must be between 0 and 1, got {compression:g}.")
    return _each(
        x,
        lengths,
        lambda clip: _through_file(
            clip, rate_hz, format="OGG", subtype="VORBIS", compression_level=compression
        ),
    )


def mu_law(x: Tensor, bits: int = 8) -> Tensor:
    """(..., T) in [-1, 1] -> (..., T): rounded on a logarithmic scale, as in telephony (G.711 with 8 bits):
    F(x) = sign(x) ln(1 + mu |x|) / ln(1 + mu), mu = 2^bits - 1, rounded to mu + 1 levels, and back."""
    mu = 2**bits - 1
    squeezed = x.sign() * torch.log1p(mu * x.abs()) / math.log1p(mu)
    rounded = ((squeezed + 1) / 2 * mu).round() / mu * 2 - 1
    return (rounded.sign() * torch.expm1(rounded.abs() * math.log1p(mu)) / mu).clamp(-1, 1)


def quantise(x: Tensor, bits: int = 16) -> Tensor:
    """(..., T) in [-1, 1] -> (..., T) on the grid of integers with `bits` bits; the files of a run have
    16."""
    steps = 2.0 ** (bits - 1)
    return (x * steps).round().clamp(-steps, steps - 1) / steps


def _through_file(clip: np.ndarray, rate_hz: int, **how: Any) -> np.ndarray:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, clip, rate_hz, **how)
    file.seek(0)
    return soundfile.read(file, dtype="float32")[0]


def _each(x: Tensor, lengths: Tensor | None, code: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """Apply `code` to each clip without its padding, which stays unchanged."""
    rows = x.detach().reshape(-1, x.shape[-1]).cpu().float()
    sizes = [x.shape[-1]] * len(rows) if lengths is None else lengths.tolist()
    y = rows.clone()
    for row, out, n in zip(rows, y, sizes, strict=True):
        decoded = code(row[:n].clamp(-1, 1).numpy())[:n]
        out[:n] = torch.from_numpy(np.pad(decoded, (0, n - len(decoded))).astype(np.float32)).clamp(-1, 1)
    return y.reshape(x.shape).to(x)
