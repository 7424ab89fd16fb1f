r"""Loudest sample of the change relative to the loudest of the clip, in dB.

Equations 1 and 2 of Vadillo and Santana 2022, https://arxiv.org/abs/2001.08444:

    dB_x,max(delta) = max_i 20 log10 |delta_i| - max_i 20 log10 |x_i|

The literature calls -32 dB acceptable. On the entire clip, -peak_db is the ratio of peaks
20 log10(max|x| / max|delta|) that some papers call the signal-to-noise ratio, or peak SNR; the ratio of
powers is snr_db.
"""

from typing import ClassVar

from limen.core.types import Samples
from limen.metrics.base.clip_parts import part_columns, part_levels
from limen.metrics.base.metric import Column, Columns, MetricOptions


class PeakDb(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return part_columns(
            "peak_db", "loudest change relative to the loudest sample of the clip", "Peak", headline=True
        )


def peak_db(samples: Samples, options: PeakDb) -> Columns:
    return part_levels(samples, "peak_db", lambda x: x.abs().max())
