"""What the rates of recognisers share: texts -> tokens -> errors, per sample and for the whole set."""

import math
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from limen.core.edits import Costs, Edits, edits
from limen.core.text import How, normalised
from limen.core.types import Output, Outputs, Samples, predictions
from limen.metrics.base.metric import Column, Columns, MetricOptions, Missing

Split = Callable[[str], list[str]]
SPLITS: dict[str, Split] = {"word": str.split, "character": lambda text: list(" ".join(text.split()))}
"""How a text falls into words, or into characters with single spaces between the words."""

NO_TARGET = Missing("the attack has no target text")


class TextOptions(MetricOptions):
    """What every metric of transcripts takes."""

    normalise: How = "words"
    """What is made alike before texts are compared: "none" nothing; "words" case, punctuation and spaces;
    "english" numbers too."""
    kinds: ClassVar[tuple[str, ...]] = ("clip",)
    outputs: ClassVar[tuple[Output, ...]] = ("transcript",)
    needs_model: ClassVar[bool] = True


class ErrorRateOptions(TextOptions):
    """What error rates take."""

    costs: Costs = "unit"
    """"unit": the fewest errors (Levenshtein); "sclite": align as NIST sclite does, with 4 for a substitution
    and 3 for the rest."""


def rate_columns(rate: str, unit: str) -> dict[str, Column]:
    def column(kind: str, prefix: str) -> Column:
        return Column(
            f"{unit} error rate of the {kind} sample",
            better="lower",
            pooled=(f"{prefix}{unit}_errors", f"{unit}s"),
        )

    return {
        f"clean_{rate}": column("clean", "clean_"),
        rate: column("adversarial", ""),
        f"clean_{unit}_errors": Column(
            f"wrong, left out and added {unit}s of the clean sample", unit=f"{unit}s", better="lower"
        ),
        f"{unit}_errors": Column(
            f"wrong, left out and added {unit}s of the adversarial sample", unit=f"{unit}s", better="lower"
        ),
        f"{unit}s": Column(f"{unit}s that were said", unit=f"{unit}s"),
    }


def error_rates(
    samples: Samples, options: ErrorRateOptions, rate: str, unit: str
) -> tuple[Columns, list[Edits]]:
    """The columns of `rate_columns`, and the edits of each adversarial sample."""
    columns: Columns = {}
    truths = [tokens(t, options, unit) for t in true_texts(samples)]
    for prefix, outputs in (("clean_", samples.clean), ("", samples.adversarial)):
        found = [
            edits(truth, tokens(text, options, unit), options.costs)
            for truth, text in zip(truths, heard(outputs), strict=True)
        ]
        columns[f"{prefix}{rate}"] = [
            _rate(e.errors, len(truth), unit) for e, truth in zip(found, truths, strict=True)
        ]
        columns[f"{prefix}{unit}_errors"] = [float(e.errors) for e in found]
    columns[f"{unit}s"] = [float(len(truth)) for truth in truths]
    return {name: columns[name] for name in rate_columns(rate, unit)}, found


def true_texts(samples: Samples) -> list[str]:
    assert not isinstance(samples.batch.y, Tensor)
    return samples.batch.y


def target_texts(samples: Samples) -> list[str] | None:
    """What the attacker wants to be heard; None where it wants something else."""
    return samples.target if isinstance(samples.target, list) else None


def heard(outputs: Outputs | None) -> list[str]:
    assert outputs is not None
    return [str(text) for text in predictions(outputs)]


def tokens(text: str, options: TextOptions, unit: str) -> list[str]:
    return SPLITS[unit](normalised(text, options.normalise))


def counts(reference: str, text: str, options: TextOptions, unit: str) -> tuple[int, int]:
    """Errors of the text, and words (or characters) of the reference."""
    truth = tokens(reference, options, unit)
    return edits(truth, tokens(text, options, unit)).errors, len(truth)


def distance(reference: str, text: str, options: TextOptions, unit: str) -> float:
    """The error rate of one text; infinite if nothing was to be heard and something was."""
    errors, n = counts(reference, text, options, unit)
    return errors / n if n else math.inf if errors else 0.0


def _rate(errors: int, n: int, unit: str) -> float | Missing:
    if n == 0:
        # nothing said and nothing heard is right; anything heard is an error that no rate can express
        return 0.0 if errors == 0 else Missing(f"the reference has no {unit}s; {errors} were added")
    return errors / n
