"""Whether the model is right, before and after the attack: the class, or the whole transcript."""

from typing import ClassVar

from limen.core.text import How
from limen.core.types import Samples, different, predictions
from limen.metrics.base.metric import Column, Columns, MetricOptions, both, comparable, unless_refused


class Correct(MetricOptions):
    normalise: How = "words"
    """What is made alike before transcripts are compared: "none" nothing; "words" case, punctuation and
    spaces; "english" numbers too."""
    needs_model: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return {
            "clean_correct": Column("the clean sample is recognised", better="higher", binary=True),
            "correct": Column("the adversarial sample is still recognised", better="higher", binary=True),
        }


def correct(samples: Samples, options: Correct) -> Columns:
    y, how, device = samples.batch.y, options.normalise, samples.batch.x.device
    truth = comparable(y, how)
    columns = both(
        samples, "correct", lambda outputs: ~different(comparable(predictions(outputs), how), truth, device)
    )
    return {
        "clean_correct": unless_refused(columns["clean_correct"], samples.clean_refused),
        "correct": unless_refused(columns["correct"], samples.refused),
    }
