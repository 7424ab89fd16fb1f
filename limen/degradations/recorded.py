"""Recorded noise from a file (applause, crickets, a street), from barely audible to as loud as the clip."""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.audio.files import read_clip
from limen.core.options import Options
from limen.core.seeds import generator
from limen.degradations.shared.scale import at_snr, between


class Recorded(Options):
    example: ClassVar[dict[str, Any]] = {"file": "applause.wav"}

    file: str = Field(min_length=1)
    """The recording; a path from the study file's folder. Its start is drawn at random; it is repeated if it
    is shorter than the clip."""
    weakest_db: float = Field(default=60.0, ge=-20, le=120)
    """Signal-to-noise ratio just above strength 0."""
    strongest_db: float = Field(default=0.0, ge=-60, le=120)
    """Signal-to-noise ratio at strength 100."""


def recorded(x: Tensor, strength: float, rate_hz: int, options: Recorded, seed: int) -> Tensor:
    if strength == 0:
        return x
    recording = read_clip(options.file, rate_hz).to(x)
    start = int(torch.randint(len(recording), (1,), generator=generator(seed, "recorded")))
    repeated = recording.roll(-start).repeat(-(-len(x) // len(recording)))[: len(x)]
    return at_snr(x, repeated, between(options.weakest_db, options.strongest_db, strength))
