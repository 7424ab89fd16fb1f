"""Sum of absolute changes: ||delta||_1."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class L1(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {"l1": Column("sum of absolute changes", better="lower", heading="L1", needs_attack=True)}


def l1(samples: Samples, options: L1) -> Columns:
    return {"l1": per_pair(samples, lambda x, x_adv: float((x_adv - x).abs().sum()))}
