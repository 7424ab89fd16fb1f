"""Whether the predicted class or the entire transcript is right, before and after the attack."""

from typing import ClassVar

from limen.core.text import How
from limen.core.types import Output, Samples, different, predictions
from limen.metrics.base.metric import Column, Columns, MetricOptions, both, comparable, unless_refused


class Correct(MetricOptions):
    normalise: How = "words"
    """Normalisation before transcripts are compared: "none"; "words" for case, punctuation and spaces;
    "english" for numbers too."""
    needs_model: ClassVar[bool] = True
    outputs: ClassVar[tuple[Output, ...]] = ("class", "transcript")

    def columns(self) -> dict[str, Column]:
        return {
            "clean_correct": Column(
                "the prediction for the clean sample is right",
                better="higher",
                heading="Clean correct",
                binary=True,
            ),
            "correct": Column(
                "the prediction for the adversarial sample is right",
                better="higher",
                heading="Correct",
                headline=True,
                binary=True,
            ),
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
