r"""Share of the attacker's target text that the model transcribes, by words and by characters.

Equation 6.1 of Olivier 2023 (thesis CMU-LTI-23-009), the targeted attack success rate:

    TASR = max(1 - WER(f(x + delta), y_t), 0),  y_t the target

and the same with the character error rate. 1 is exactly the target; 0 is as far from it as an unrelated
sentence of the same length. Over a set the rates are averaged, as in the thesis; `wer_to_target` is total
errors over total words of the targets.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import (
    NO_TARGET,
    TextOptions,
    counts,
    error_rate,
    target_texts,
    transcripts,
)
from limen.metrics.base.metric import Column, Columns, Missing


class TargetedSuccess(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "tasr_word": Column(
                "share of the target's words in the adversarial transcript (equation 6.1)",
                better="lower",
                heading="TASR, words",
                format="%",
                figure="mean",
            ),
            "tasr_char": Column(
                "share of the target's characters in the adversarial transcript (equation 6.1)",
                better="lower",
                heading="TASR, characters",
                format="%",
                figure="mean",
            ),
            "wer_to_target": Column(
                "word error rate against the target instead of the reference",
                better="higher",
                heading="WER to target",
                pooled=("target_word_errors", "target_words"),
            ),
            "target_word_errors": Column(
                "wrong, missing and added words, against the target",
                unit="words",
                better="higher",
                heading="Errors to target",
                format="n",
            ),
            "target_words": Column("words of the target", unit="words", heading="Target words", format="n"),
        }


def targeted_success(samples: Samples, options: TargetedSuccess) -> Columns:
    targets, texts = target_texts(samples), transcripts(samples.adversarial)
    if targets is None:
        return {name: [NO_TARGET] * len(texts) for name in options.columns()}
    by_word, by_char = (
        [error_rate(t, text, options, unit) for t, text in zip(targets, texts, strict=True)]
        for unit in ("word", "character")
    )
    empty = Missing("the target has no words")
    errors = [counts(t, text, options, "word") for t, text in zip(targets, texts, strict=True)]
    return {
        "tasr_word": [max(1 - d, 0.0) for d in by_word],
        "tasr_char": [max(1 - d, 0.0) for d in by_char],
        "wer_to_target": [d if d < float("inf") else empty for d in by_word],
        "target_word_errors": [float(e) for e, _ in errors],
        "target_words": [float(n) for _, n in errors],
    }
