"""How loud the clean clip is: the mean magnitude of its 16-bit samples in dB, and its level: 0 low, 1 medium,
2 high.

Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444, equation 12; low is below 50 dB, high above 70 dB.
"""

from typing import ClassVar, get_args

from torch import Tensor

from limen.audio.loudness import Loudness as Level
from limen.audio.loudness import loudness as level_of
from limen.audio.loudness import mean_db
from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair

LEVELS = get_args(Level)


class Loudness(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {
            "loudness_db": Column("mean level of the clean clip on the 16-bit scale", unit="dB"),
            "loudness_level": Column("level of the clean clip: 0 low, 1 medium, 2 high"),
        }


def loudness(samples: Samples, options: Loudness) -> Columns:
    levels = per_pair(samples, _mean_level)
    return {
        "loudness_db": levels,
        "loudness_level": [v if isinstance(v, Missing) else float(LEVELS.index(level_of(v))) for v in levels],
    }


def _mean_level(x: Tensor, x_adv: Tensor) -> float | Missing:
    return float(mean_db(x)) if bool(x.any()) else SILENT
