r"""Error rate of the adversarial transcript, cut at 1, by words and by characters.

Equation 6.2 of Olivier 2023 (thesis CMU-LTI-23-009), the untargeted attack success rate:

    UASR = min(WER(f(x + delta), y), 1),  y the reference

and the same with the character error rate. 1 is denial of service.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import TextOptions, error_rate, transcripts, true_texts
from limen.metrics.base.metric import Column, Columns


class UntargetedSuccess(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "uasr_word": Column(
                "word error rate of the adversarial sample, cut at 1 (equation 6.2)",
                better="lower",
                heading="UASR, words",
                format="%",
                figure="mean",
            ),
            "uasr_char": Column(
                "character error rate of the adversarial sample, cut at 1 (equation 6.2)",
                better="lower",
                heading="UASR, characters",
                format="%",
                figure="mean",
            ),
        }


def untargeted_success(samples: Samples, options: UntargetedSuccess) -> Columns:
    pairs = list(zip(true_texts(samples), transcripts(samples.adversarial), strict=True))
    return {
        column: [min(error_rate(truth, text, options, unit), 1.0) for truth, text in pairs]
        for column, unit in (("uasr_word", "word"), ("uasr_char", "character"))
    }
