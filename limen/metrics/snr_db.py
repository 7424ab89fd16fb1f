r"""Signal-to-noise ratio of powers in dB: 10 log10(P(x) / P(delta)).

P is the power over the valid samples. Equation 3 of Vadillo and Santana 2022,
https://arxiv.org/abs/2001.08444. Some frameworks report a ratio of peaks under the same name,
20 log10(max|x| / max|delta|): here that ratio is -peak_db.
"""

import math
from typing import ClassVar

from torch import Tensor

from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, UNCHANGED, Column, Columns, MetricOptions, Missing, per_pair


class SnrDb(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {
            "snr_db": Column(
                "signal-to-noise ratio: power of the clip over that of the change",
                unit="dB",
                better="higher",
                heading="SNR, dB",
                format="1f",
                headline=True,
                needs_attack=True,
            )
        }


def snr_db(samples: Samples, options: SnrDb) -> Columns:
    return {"snr_db": per_pair(samples, _snr)}


def _snr(x: Tensor, x_adv: Tensor) -> float | Missing:
    signal, noise = float(x.square().sum()), float((x_adv - x).square().sum())
    if noise == 0:
        return UNCHANGED
    return 10 * math.log10(signal / noise) if signal > 0 else SILENT
