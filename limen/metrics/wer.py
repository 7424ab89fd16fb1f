"""Word error rate of the transcripts, before and after the attack.

Wrong, missing and added words over the words of the reference; the three kinds of errors are counted
separately. With `costs: sclite` the counts are those of NIST sclite, whose alignment weighs a substitution
with 4 and the other errors with 3.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import ErrorRateOptions, error_rates, rate_columns
from limen.metrics.base.metric import Column, Columns


class Wer(ErrorRateOptions):
    def columns(self) -> dict[str, Column]:
        return rate_columns("wer", "word", headline=True) | {
            "substitutions": Column(
                "words of the reference replaced by others in the adversarial transcript",
                unit="words",
                better="lower",
                heading="Substitutions",
                format="n",
            ),
            "deletions": Column(
                "words of the reference missing from the adversarial transcript",
                unit="words",
                better="lower",
                heading="Deletions",
                format="n",
            ),
            "insertions": Column(
                "words of the adversarial transcript that the reference does not have",
                unit="words",
                better="lower",
                heading="Insertions",
                format="n",
            ),
        }


def wer(samples: Samples, options: Wer) -> Columns:
    columns, adversarial = error_rates(samples, options, "wer", "word")
    return columns | {
        name: [float(getattr(e, name)) for e in adversarial]
        for name in ("substitutions", "deletions", "insertions")
    }
