"""Number of values that were changed."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class L0(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "l0": Column(
                "number of values changed",
                unit="values",
                better="lower",
                heading="L0",
                format="0f",
                needs_attack=True,
            )
        }


def l0(samples: Samples, options: L0) -> Columns:
    return {"l0": per_pair(samples, lambda x, x_adv: float((x_adv != x).sum()))}
