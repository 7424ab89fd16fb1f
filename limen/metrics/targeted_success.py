r"""How much of the attacker's target was heard, by words and by characters.

Equation 6.1 of Olivier 2023 (thesis CMU-LTI-23-009), the targeted attack success rate:

    TASR = max(1 - WER(f(x + delta), y_t), 0),  y_t the target

and the same with the character error rate. 1: exactly the target; 0: as far from it as an unrelated sentence
of its length. Over a set they are averaged, as there; `wer_to_target` of a set is total errors over total
words of the targets.
"""

from limen.core.types import Samples
from limen.metrics.base.error_rates import NO_TARGET, TextOptions, counts, distance, heard, target_texts
from limen.metrics.base.metric import Column, Columns, Missing


class TargetedSuccess(TextOptions):
    def columns(self) -> dict[str, Column]:
        return {
            "tasr_word": Column("share of the target's words heard (equation 6.1)", better="lower"),
            "tasr_char": Column("share of the target's characters heard (equation 6.1)", better="lower"),
            "wer_to_target": Column(
                "word error rate against the target instead of the truth",
                better="higher",
                pooled=("target_word_errors", "target_words"),
            ),
            "target_word_errors": Column(
                "wrong, left out and added words, against the target", unit="words", better="higher"
            ),
            "target_words": Column("words of the target", unit="words"),
        }


def targeted_success(samples: Samples, options: TargetedSuccess) -> Columns:
    targets, texts = target_texts(samples), heard(samples.adversarial)
    if targets is None:
        return {name: [NO_TARGET] * len(texts) for name in options.columns()}
    by_word, by_char = (
        [distance(t, text, options, unit) for t, text in zip(targets, texts, strict=True)]
        for unit in ("word", "character")
    )
    empty = Missing("the target has no words")
    counted = [counts(t, text, options, "word") for t, text in zip(targets, texts, strict=True)]
    return {
        "tasr_word": [max(1 - d, 0.0) for d in by_word],
        "tasr_char": [max(1 - d, 0.0) for d in by_char],
        "wer_to_target": [d if d < float("inf") else empty for d in by_word],
        "target_word_errors": [float(e) for e, _ in counted],
        "target_words": [float(n) for _, n in counted],
    }
