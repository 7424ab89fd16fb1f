"""The sum of all changes: ||delta||_1."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class L1(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {"l1": Column("sum of the magnitudes of the changes", better="lower")}


def l1(samples: Samples, options: L1) -> Columns:
    return {"l1": per_pair(samples, lambda x, x_adv: float((x_adv - x).abs().sum()))}
