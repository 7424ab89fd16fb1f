r"""Levels of a change relative to the clip: on the whole clip, on its vocal part and on its background.

Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444, section 4.2:

    dB_x(delta) = dB(delta) - dB(x),  each part of delta compared with the same part of x

The vocal part is the shortest contiguous stretch with 95 % of the clean clip's energy; what lies before and
behind it is background. Clips of the class silence have no vocal part.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from limen.audio.parts import vocal_part
from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, Missing, per_pair

SILENCE = ("silence", "_silence_", "_background_noise_")
"""Names that data sets give to the class without speech."""
NO_SPEECH = Missing("the clip is of the class silence")

Level = Callable[[Tensor], Tensor]
"""Linear level of a stretch of samples: their largest or their mean magnitude."""


def part_columns(name: str, meaning: str) -> dict[str, Column]:
    parts = {"": "the whole clip", "_vocal": "the vocal part", "_background": "the background"}
    return {
        f"{name}{part}": Column(f"{meaning}, on {words}", unit="dB", better="lower")
        for part, words in parts.items()
    }


def part_levels(samples: Samples, name: str, level: Level) -> Columns:
    def vocal(x: Tensor, x_adv: Tensor) -> float | Missing:
        start, end = vocal_part(x[None])[0].tolist()
        return _relative(x[start:end], x_adv[start:end], level, "vocal part")

    def background(x: Tensor, x_adv: Tensor) -> float | Missing:
        start, end = vocal_part(x[None])[0].tolist()
        return _relative(
            torch.cat([x[:start], x[end:]]), torch.cat([x_adv[:start], x_adv[end:]]), level, "background"
        )

    spoken = [
        NO_SPEECH if silent else value
        for silent, value in zip(_silence(samples), per_pair(samples, vocal), strict=True)
    ]
    return {
        name: per_pair(samples, lambda x, x_adv: _relative(x, x_adv, level, "clip")),
        f"{name}_vocal": spoken,
        f"{name}_background": per_pair(samples, background),
    }


def _relative(x: Tensor, x_adv: Tensor, level: Level, part: str) -> float | Missing:
    if len(x) == 0:
        return Missing(f"the clip has no {part}")
    of_clip, of_change = float(level(x)), float(level(x_adv - x))
    if of_clip == 0:
        return Missing(f"the clean {part} is silent")
    return (
        20 * math.log10(of_change / of_clip)
        if of_change > 0
        else Missing(f"nothing was changed in the {part}")
    )


def _silence(samples: Samples) -> list[bool]:
    y, classes = samples.batch.y, samples.classes
    if not isinstance(y, Tensor) or classes is None:
        return [False] * len(samples.batch)
    return [0 <= k < len(classes) and classes[k].lower() in SILENCE for k in y.tolist()]
