"""Norm of the change over that of the sample: ||delta||_p / ||x||_p for p = 2 and p = infinity."""

import torch
from torch import Tensor

from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair


class Dissimilarity(MetricOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "dissimilarity_l2": Column(
                "Euclidean norm of the change over that of the sample",
                better="lower",
                heading="Dissim.",
                needs_attack=True,
            ),
            "dissimilarity_linf": Column(
                "largest change over the largest value of the sample",
                better="lower",
                heading="Dissim. L∞",
                needs_attack=True,
            ),
        }


def dissimilarity(samples: Samples, options: Dissimilarity) -> Columns:
    return {
        "dissimilarity_l2": per_pair(samples, lambda x, x_adv: _ratio(x, x_adv, 2)),
        "dissimilarity_linf": per_pair(samples, lambda x, x_adv: _ratio(x, x_adv, torch.inf)),
    }


def _ratio(x: Tensor, x_adv: Tensor, p: float) -> float | Missing:
    size = x.flatten().norm(p)
    return float((x_adv - x).flatten().norm(p) / size) if size > 0 else SILENT
