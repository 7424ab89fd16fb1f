"""Word error rate: wrong, left out and added words over the words that were said; the three kinds of errors
are counted apart.

With `costs: sclite` the counts are those of NIST sclite, whose alignment weighs a substitution 4 and the rest
3.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import ErrorRateOptions, error_rates, rate_columns
from limen.metrics.base.metric import Column, Columns


class Wer(ErrorRateOptions):
    def columns(self) -> dict[str, Column]:
        return rate_columns("wer", "word") | {
            "substitutions": Column(
                "words of the adversarial sample heard as others", unit="words", better="lower"
            ),
            "deletions": Column("words of the adversarial sample left out", unit="words", better="lower"),
            "insertions": Column(
                "words heard in the adversarial sample and never said", unit="words", better="lower"
            ),
        }


def wer(samples: Samples, options: Wer) -> Columns:
    columns, found = error_rates(samples, options, "wer", "word")
    return columns | {
        name: [float(getattr(e, name)) for e in found]
        for name in ("substitutions", "deletions", "insertions")
    }
