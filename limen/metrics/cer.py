"""Character error rate of the transcripts, before and after the attack.

Wrong, missing and added characters over the characters of the reference, single spaces between words
included.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import ErrorRateOptions, error_rates, rate_columns
from limen.metrics.base.metric import Column, Columns


class Cer(ErrorRateOptions):
    def columns(self) -> dict[str, Column]:
        return rate_columns("cer", "character")


def cer(samples: Samples, options: Cer) -> Columns:
    return error_rates(samples, options, "cer", "character")[0]
