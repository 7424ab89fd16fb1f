"""Whether the attack changed the model's answer: averaged, the fooling ratio of Moosavi-Dezfooli et al. 2017,
whatever the truth is.

Over all samples, those that were wrong before included; `success` asks whether the attack brought the sample
to its goal.
"""

from typing import ClassVar

from limen.core.text import How
from limen.core.types import Samples, different, predictions
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
    """What is made alike before transcripts are compared: "none" nothing; "words" case, punctuation and
    spaces; "english" numbers too."""
    needs_model: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return {
            "fooled": Column("the adversarial sample is answered differently", better="lower", binary=True)
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
