"""Whether the model is right, before and after the attack: the class, or the whole transcript."""

from typing import ClassVar

from limen.metrics._metric import Column, Columns, MetricOptions, both
from limen.types import Samples, different, predictions


class Correct(MetricOptions):
    needs_model: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return {"clean_correct": Column("the clean sample is recognised", better="higher", binary=True),
                "correct": Column("the adversarial sample is still recognised", better="higher", binary=True)}  # fmt: skip


def correct(samples: Samples, options: Correct) -> Columns:
    y, device = samples.batch.y, samples.batch.x.device
    return both(samples, "correct", lambda outputs: ~different(predictions(outputs), y, device))
