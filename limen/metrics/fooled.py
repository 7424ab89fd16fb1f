"""Whether the attack changed the prediction, right or wrong.

The mean is the fooling ratio of Moosavi-Dezfooli et al. 2017, https://arxiv.org/abs/1610.08401. It counts all
samples, including those misclassified before the attack; `success` is whether the attack reached its goal.
"""

from typing import ClassVar

from limen.core.text import How
from limen.core.types import Output, Samples, different, predictions
from limen.metrics.base.metric import (
    NO_ANSWER,
    Column,
    Columns,
    MetricOptions,
    comparable,
    unanswered,
    unless_refused,
)


class Fooled(MetricOptions):
    normalise: How = "words"
    """Normalisation before transcripts are compared: "none"; "words" for case, punctuation and spaces;
    "english" for numbers too."""
    needs_model: ClassVar[bool] = True
    outputs: ClassVar[tuple[Output, ...]] = ("class", "transcript")

    def columns(self) -> dict[str, Column]:
        return {
            "fooled": Column(
                "the prediction for the adversarial sample differs from that for the clean one",
                better="lower",
                heading="Fooled",
                headline="transcript",
                needs_attack=True,
                binary=True,
            )
        }


def fooled(samples: Samples, options: Fooled) -> Columns:
    assert samples.clean is not None
    assert samples.adversarial is not None
    before, after = (
        comparable(predictions(outputs), options.normalise)
        for outputs in (samples.clean, samples.adversarial)
    )
    moved = different(before, after).tolist()
    bad = zip(unanswered(samples.clean), unanswered(samples.adversarial), strict=True)
    values = [NO_ANSWER if any(b) else float(m) for m, b in zip(moved, bad, strict=True)]
    return {"fooled": unless_refused(values, samples.refused)}
