r"""Level of a change relative to the clip: on the entire clip, on its vocal part and on its background.

Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444, section 4.2:

    dB_x(delta) = dB(delta) - dB(x),  each part of delta compared with the same part of x

The vocal part is the shortest contiguous stretch with 95 % of the clean clip's energy; the rest is
background. Clips of the class silence have no vocal part.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from limen.audio.parts import vocal_part
from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, Missing, per_pair

SILENCE = ("silence", "_silence_", "_background_noise_")
"""Names of the class without speech in common data sets."""
NO_SPEECH = Missing("the clip is of the class silence")

Level = Callable[[Tensor], Tensor]
"""Linear level of a stretch of samples: the largest or the mean magnitude."""


PARTS = {
    "": ("the entire clip", ""),
    "_vocal": ("the vocal part", " vocal"),
    "_background": ("the background", " backgr."),
}
"""Suffix of a column -> the part in its meaning, and in its heading."""


def part_columns(name: str, meaning: str, heading: str, *, headline: bool = False) -> dict[str, Column]:
    """One column per part; only that of the entire clip can be a headline."""
    return {
        f"{name}{suffix}": Column(
            f"{meaning}, on {part}",
            unit="dB",
            better="lower",
            heading=f"{heading}{short}, dB",
            format="1f",
            headline=headline and not suffix,
            needs_attack=True,
        )
        for suffix, (part, short) in PARTS.items()
    }


def part_levels(samples: Samples, name: str, level: Level) -> Columns:
    """The columns of `part_columns`."""

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
    clip_level, change_level = float(level(x)), float(level(x_adv - x))
    if clip_level == 0:
        return Missing(f"the clean {part} is silent")
    return (
        20 * math.log10(change_level / clip_level)
        if change_level > 0
        else Missing(f"nothing was changed in the {part}")
    )


def _silence(samples: Samples) -> list[bool]:
    """(B,): whether the sample is of a class without speech."""
    y, classes = samples.batch.y, samples.classes
    if not isinstance(y, Tensor) or classes is None:
        return [False] * len(samples.batch)
    return [0 <= k < len(classes) and classes[k].lower() in SILENCE for k in y.tolist()]
