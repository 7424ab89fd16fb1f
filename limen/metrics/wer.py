"""Word error rate: wrong, left out and added words over the words that were said."""

from typing import ClassVar

from limen.metrics._errors import ErrorRateOptions, error_rates, rate_columns
from limen.metrics._metric import Column, Columns
from limen.types import Samples


class Wer(ErrorRateOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)
    outputs: ClassVar[tuple[str, ...]] = ("transcript",)
    needs_model: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return rate_columns("wer", "word")


def wer(samples: Samples, options: Wer) -> Columns:
    return error_rates(samples, options, "wer", "word", str.split)
