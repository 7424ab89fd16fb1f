"""Sentence error rate: whether the transcript has any error at all, before and after the attack."""

from limen.metrics._errors import TextOptions, heard, true_texts
from limen.metrics._metric import Column, Columns
from limen.text import normalised
from limen.types import Samples


class Ser(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {"clean_ser": Column("the transcript of the clean sample has an error", better="lower", binary=True),
                "ser": Column("the transcript of the adversarial sample has an error", better="lower", binary=True)}  # fmt: skip


def ser(samples: Samples, options: Ser) -> Columns:
    truths = [normalised(t, options.normalise) for t in true_texts(samples)]
    return {name: [float(normalised(text, options.normalise) != truth) for text, truth in zip(heard(outputs), truths, strict=True)]
            for name, outputs in (("clean_ser", samples.clean), ("ser", samples.adversarial))}  # fmt: skip
