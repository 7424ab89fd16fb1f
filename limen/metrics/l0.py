"""How many values of the sample were changed."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class L0(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {"l0": Column("values changed", unit="values", better="lower")}


def l0(samples: Samples, options: L0) -> Columns:
    return {"l0": per_pair(samples, lambda x, x_adv: float((x_adv != x).sum()))}
