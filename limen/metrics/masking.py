r"""How far the change sticks out of what the clip hides: power above the masking threshold, and the share of the spectrogram that is audible.

Qin et al. 2019, https://arxiv.org/abs/1903.10346: l_theta = mean over frames and bins of max(0, psd_delta - theta), in units in which the
loudest bin of the clip is 10^{9.6} (96 dB). Given as 10 log10(1 + l_theta), which is 0 where everything is hidden.
"""

import math
from typing import ClassVar

from torch import Tensor

from limen.metrics._metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair
from limen.perception.masking import Masking as Hidden
from limen.types import Samples

NO_RATE = Missing("the sample rate is not known")


class Masking(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {"masking_excess_db": Column("mean power of the change above the masking threshold", unit="dB", better="lower"),
                "audible_share": Column("share of the spectrogram in which the change exceeds the masking threshold", better="lower")}  # fmt: skip


def masking(samples: Samples, options: Masking) -> Columns:
    rate_hz = samples.rate_hz
    if rate_hz is None:
        return {name: [NO_RATE] * len(samples.batch) for name in options.columns()}
    measured: list[tuple[float, float]] = []

    def both(x: Tensor, x_adv: Tensor) -> float | Missing:
        """Keeps the two values and gives the place where they stand: the threshold is computed once."""
        if not bool(x.any()):
            return SILENT
        hidden, delta = Hidden.of(x[None], None, rate_hz), (x_adv - x)[None]
        measured.append((10 * math.log10(1 + float(hidden.excess(delta))), float(hidden.audible(delta))))
        return len(measured) - 1.0

    places = per_pair(samples, both)
    return {name: [p if isinstance(p, Missing) else measured[int(p)][k] for p in places] for k, name in enumerate(options.columns())}
