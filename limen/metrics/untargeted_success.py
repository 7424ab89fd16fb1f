r"""How much of what was said is no longer heard, by words and by characters.

Equation 6.2 of Olivier 2023 (thesis CMU-LTI-23-009), the untargeted attack success rate:

    UASR = min(WER(f(x + delta), y), 1),  y the truth

and the same with the character error rate. 1 is denial of service.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import TextOptions, distance, heard, true_texts
from limen.metrics.base.metric import Column, Columns


class UntargetedSuccess(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "uasr_word": Column(
                "word error rate of the adversarial sample, cut at 1 (equation 6.2)", better="lower"
            ),
            "uasr_char": Column(
                "character error rate of the adversarial sample, cut at 1 (equation 6.2)", better="lower"
            ),
        }


def untargeted_success(samples: Samples, options: UntargetedSuccess) -> Columns:
    pairs = list(zip(true_texts(samples), heard(samples.adversarial), strict=True))
    return {
        column: [min(distance(truth, text, options, unit), 1.0) for truth, text in pairs]
        for column, unit in (("uasr_word", "word"), ("uasr_char", "character"))
    }
