"""Largest change of one value: ||delta||_inf."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class Linf(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "linf": Column("largest change of one value", better="lower", heading="L∞", needs_attack=True)
        }


def linf(samples: Samples, options: Linf) -> Columns:
    return {"linf": per_pair(samples, lambda x, x_adv: float((x_adv - x).abs().max()))}
