"""Sentence error rate: whether the transcript has any error, before and after the attack."""

from limen.core.text import normalised
from limen.core.types import Samples
from limen.metrics.base.error_rates import TextOptions, transcripts, true_texts
from limen.metrics.base.metric import Column, Columns


class Ser(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "clean_ser": Column(
                "the transcript of the clean sample has an error",
                better="lower",
                heading="Clean SER",
                binary=True,
            ),
            "ser": Column(
                "the transcript of the adversarial sample has an error",
                better="lower",
                heading="SER",
                binary=True,
            ),
        }


def ser(samples: Samples, options: Ser) -> Columns:
    truths = [normalised(t, options.normalise) for t in true_texts(samples)]
    return {
        name: [
            float(normalised(text, options.normalise) != truth)
            for text, truth in zip(transcripts(outputs), truths, strict=True)
        ]
        for name, outputs in (("clean_ser", samples.clean), ("ser", samples.adversarial))
    }
