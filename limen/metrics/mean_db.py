r"""Mean magnitude of the change relative to that of the clip, in dB.

Equations 11 and 12 of Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444:

    dB_x,mean(delta) = dB_mean(delta) - dB_mean(x),  dB_mean(x) = 20 log10( 1/d sum_i |x_i| )
"""

from typing import ClassVar

from limen.core.types import Samples
from limen.metrics.base.clip_parts import part_columns, part_levels
from limen.metrics.base.metric import Column, Columns, MetricOptions


class MeanDb(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return part_columns("mean_db", "mean change relative to the mean magnitude of the clip", "Mean")


def mean_db(samples: Samples, options: MeanDb) -> Columns:
    return part_levels(samples, "mean_db", lambda x: x.abs().mean())
