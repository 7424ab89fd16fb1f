r"""Power of the change above the masking threshold of the clip, and the share above it.

Qin et al. 2019, https://arxiv.org/abs/1903.10346: l_theta = mean over frames and bins of max(0, psd_delta -
theta), in units in which the loudest bin of the clip is 10^{9.6} (96 dB). Given as 10 log10(1 + l_theta),
which is 0 if the change is masked everywhere.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair
from limen.perception.masking import Masking as Thresholds

NO_RATE = Missing("the sample rate is not known")


class Masking(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {
            "masking_excess_db": Column(
                "mean power of the change above the masking threshold",
                unit="dB",
                better="lower",
                heading="Unmasked, dB",
                format="1f",
                needs_attack=True,
            ),
            "audible_share": Column(
                "share of the spectrogram in which the change exceeds the masking threshold",
                better="lower",
                heading="Audible",
                format="%",
                needs_attack=True,
            ),
        }


def masking(samples: Samples, options: Masking) -> Columns:
    rate_hz = samples.rate_hz
    if rate_hz is None:
        return {name: [NO_RATE] * len(samples.batch) for name in options.columns()}
    return {
        "masking_excess_db": per_pair(samples, lambda x, x_adv: _measured(x, x_adv, rate_hz, _excess_db)),
        "audible_share": per_pair(samples, lambda x, x_adv: _measured(x, x_adv, rate_hz, Thresholds.audible)),
    }


def _measured(
    x: Tensor, x_adv: Tensor, rate_hz: int, measure: Callable[[Thresholds, Tensor], Tensor]
) -> float | Missing:
    return (
        float(measure(Thresholds.of(x[None], None, rate_hz), (x_adv - x)[None])) if bool(x.any()) else SILENT
    )


def _excess_db(thresholds: Thresholds, delta: Tensor) -> Tensor:
    return 10 * (1 + thresholds.excess(delta)).log10()
