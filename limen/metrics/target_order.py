r"""Share of the likeliest classes that are the attacker's, in the attacker's order.

For goals that name a distribution over k classes. Equation D.1 of Olivier 2023 (thesis CMU-LTI-23-009):

    Acc = 1/k sum_{i=1..k} 1[ argsort(f(x + delta))_i = argsort(y)_i ],
        largest first, k the classes with a share in y
"""

from typing import ClassVar

from torch import Tensor

from limen.core.types import Output, Samples
from limen.metrics.base.metric import NO_ANSWER, Column, Columns, MetricOptions, Missing, unanswered


class TargetOrder(MetricOptions):
    needs_model: ClassVar[bool] = True
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    def columns(self) -> dict[str, Column]:
        return {
            "target_order": Column(
                "share of the first k ranks that hold the same class as in the target distribution",
                better="lower",
                heading="Target order",
                format="%",
                figure="mean",
                needs_attack=True,
            )
        }


def target_order(samples: Samples, options: TargetOrder) -> Columns:
    logits, target = samples.adversarial, samples.target
    assert isinstance(logits, Tensor)
    if not isinstance(target, Tensor) or target.dim() != 2:
        return {"target_order": [Missing("the goal names no distribution over classes")] * len(logits)}
    k = (target > 0).sum(1)
    match = logits.argsort(dim=1, descending=True, stable=True) == target.to(logits.device).argsort(
        dim=1, descending=True, stable=True
    )
    shares = [float(row[:n].float().mean()) for row, n in zip(match, k.tolist(), strict=True)]
    return {
        "target_order": [
            NO_ANSWER if bad else share for share, bad in zip(shares, unanswered(logits), strict=True)
        ]
    }
