"""Softmax probability of the predicted class, before and after the attack."""

from typing import ClassVar

from torch import Tensor

from limen.core.types import Output, Outputs, Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, both


class Confidence(MetricOptions):
    needs_model: ClassVar[bool] = True
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    def columns(self) -> dict[str, Column]:
        return {
            "clean_confidence": Column(
                "probability of the class predicted for the clean sample", heading="Clean conf.", format="%"
            ),
            "confidence": Column(
                "probability of the class predicted for the adversarial sample",
                heading="Confidence",
                format="%",
            ),
        }


def confidence(samples: Samples, options: Confidence) -> Columns:
    def largest(outputs: Outputs) -> Tensor:
        assert isinstance(outputs, Tensor)
        return outputs.double().softmax(1).amax(1)

    return both(samples, "confidence", largest)
