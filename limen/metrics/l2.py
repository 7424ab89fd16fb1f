"""Euclidean norm of the change: ||delta||_2."""

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair


class L2(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "l2": Column(
                "Euclidean norm of the change",
                better="lower",
                heading="L2",
                headline="picture",
                needs_attack=True,
            )
        }


def l2(samples: Samples, options: L2) -> Columns:
    return {"l2": per_pair(samples, lambda x, x_adv: float((x_adv - x).norm()))}
