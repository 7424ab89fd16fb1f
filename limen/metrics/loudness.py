"""Loudness of the clean clip: mean magnitude of its 16-bit samples in dB, and one of three levels.

Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444, equation 12; the levels are 0 (low, below
50 dB), 1 (medium) and 2 (high, above 70 dB).
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
            "loudness_db": Column(
                "mean level of the clean clip on the 16-bit scale",
                unit="dB",
                heading="Loudness, dB",
                format="1f",
            ),
            "loudness_level": Column(
                "loudness of the clean clip: 0 low, 1 medium, 2 high", heading="Loudness", format="0f"
            ),
        }


def loudness(samples: Samples, options: Loudness) -> Columns:
    levels = per_pair(samples, _mean_level)
    return {
        "loudness_db": levels,
        "loudness_level": [v if isinstance(v, Missing) else float(LEVELS.index(level_of(v))) for v in levels],
    }


def _mean_level(x: Tensor, x_adv: Tensor) -> float | Missing:
    return float(mean_db(x)) if bool(x.any()) else SILENT
