"""Versions of a clip that are shifted in time: a listener who switches between them hears a jump, for any
else differs."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.listening.study import Study

SHIFT_S = 0.001
"""A smaller shift only affects the 8 ms of the crossfade."""
MOST_S = 0.1
"""Codecs and resamplers delay by less; a best match beyond this is another position in the sound."""
ALIKE = 0.5
"""Correlation at the best shift from which two clips are versions of the same sound."""


def shifted(study: Study, folder: Path) -> Iterator[str]:
    """Messages about versions of an item that are shifted against its first version."""
    from limen.audio.files import clip_header, read_clip
    from limen.listening.stimuli import inside

    def clip(file: str) -> tuple[Tensor, int]:
        path = inside(folder, file)
        rate_hz = clip_header(path)[0]
        return read_clip(path, rate_hz), rate_hz

    pairs = [
        (one, other)
        for item in study.items
        for one, *others in [list(item.files.values())]
        for other in others
    ]
    for one, other in dict.fromkeys(pairs):
        try:
            (x, rate_hz), (y, other_hz) = clip(one), clip(other)
        except UserError:
            continue  # reported already
        if rate_hz != other_hz:
            continue
        shift, alike = best_shift(x, y, round(MOST_S * rate_hz))
        if alike >= ALIKE and abs(shift) >= SHIFT_S * rate_hz:
            yield (
                f"{other} lags {1000 * shift / rate_hz:+.1f} ms behind {one}: a listener who switches "
                "between them during playback hears a jump. Align the files, or set `switch: false`."
            )


def best_shift(x: Tensor, y: Tensor, most: int) -> tuple[int, float]:
    """The lag of y behind x, in samples, at which they correlate best, within `most` samples either way, and
    their correlation at that lag."""
    n = 1 << (len(x) + len(y) - 1).bit_length()
    product = torch.fft.rfft(y.double(), n) * torch.fft.rfft(x.double(), n).conj()
    correlation = torch.fft.irfft(product, n).roll(most)[: 2 * most + 1]
    best = int(correlation.argmax())
    power = float(x.double().norm() * y.double().norm())
    return best - most, float(correlation[best]) / power if power else 0.0
