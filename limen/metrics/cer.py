"""Character error rate: wrong, left out and added characters, single spaces between words included, over the characters that were said."""

from typing import ClassVar

from limen.metrics._errors import ErrorRateOptions, error_rates, rate_columns
from limen.metrics._metric import Column, Columns
from limen.types import Samples


class Cer(ErrorRateOptions):
    kinds: ClassVar[tuple[str, ...]] = ("clip",)
    outputs: ClassVar[tuple[str, ...]] = ("transcript",)
    needs_model: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return rate_columns("cer", "character")


def cer(samples: Samples, options: Cer) -> Columns:
    return error_rates(samples, options, "cer", "character", lambda text: list(" ".join(text.split())))
