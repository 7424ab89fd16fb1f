"""Error rates of recognisers: texts -> tokens -> errors, per sample and for the set."""

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
"""Unit -> how a text is split into tokens: words, or characters with single spaces between the words."""

NO_TARGET = Missing("the attack has no target text")


class TextOptions(MetricOptions):
    """Options of every metric of transcripts."""

    normalise: How = "words"
    """Normalisation before texts are compared: "none"; "words" for case, punctuation and spaces; "english"
    for numbers too."""
    kinds: ClassVar[tuple[str, ...]] = ("clip",)
    outputs: ClassVar[tuple[Output, ...]] = ("transcript",)
    needs_model: ClassVar[bool] = True


class ErrorRateOptions(TextOptions):
    """Options of error rates."""

    costs: Costs = "unit"
    """"unit": the fewest errors (Levenshtein); "sclite": the alignment of NIST sclite, with cost 4 for a
    substitution and 3 for the other errors."""


def rate_columns(rate: str, unit: str, *, headline: bool = False) -> dict[str, Column]:
    """The rate of clean and adversarial samples, and the counts that it is computed from."""
    name = rate.upper()

    def rate_of(kind: str, prefix: str, heading: str, headline: bool) -> Column:
        return Column(
            f"{unit} error rate of the {kind} sample",
            better="lower",
            heading=heading,
            headline=headline,
            pooled=(f"{prefix}{unit}_errors", f"{unit}s"),
        )

    def errors_of(kind: str, heading: str) -> Column:
        return Column(
            f"wrong, missing and added {unit}s of the {kind} sample",
            unit=f"{unit}s",
            better="lower",
            heading=heading,
            format="n",
        )

    return {
        f"clean_{rate}": rate_of("clean", "clean_", f"Clean {name}", False),
        rate: rate_of("adversarial", "", name, headline),
        f"clean_{unit}_errors": errors_of("clean", f"Clean {unit} errors"),
        f"{unit}_errors": errors_of("adversarial", f"{unit.capitalize()} errors"),
        f"{unit}s": Column(
            f"{unit}s of the reference", unit=f"{unit}s", heading=f"{unit.capitalize()}s", format="n"
        ),
    }


def error_rates(
    samples: Samples, options: ErrorRateOptions, rate: str, unit: str
) -> tuple[Columns, list[Edits]]:
    """The columns of `rate_columns`, and the edits of each adversarial sample."""
    columns: Columns = {}
    references = [tokens(t, options, unit) for t in true_texts(samples)]
    for prefix, outputs in (("clean_", samples.clean), ("", samples.adversarial)):
        errors = [
            edits(reference, tokens(text, options, unit), options.costs)
            for reference, text in zip(references, transcripts(outputs), strict=True)
        ]
        columns[f"{prefix}{rate}"] = [
            _rate(e.errors, len(reference), unit) for e, reference in zip(errors, references, strict=True)
        ]
        columns[f"{prefix}{unit}_errors"] = [float(e.errors) for e in errors]
    columns[f"{unit}s"] = [float(len(reference)) for reference in references]
    return {name: columns[name] for name in rate_columns(rate, unit)}, errors


def true_texts(samples: Samples) -> list[str]:
    assert not isinstance(samples.batch.y, Tensor)
    return samples.batch.y


def target_texts(samples: Samples) -> list[str] | None:
    """The texts the attacker wants transcribed; None if the goal is not a text."""
    return samples.target if isinstance(samples.target, list) else None


def transcripts(outputs: Outputs | None) -> list[str]:
    """The model's transcripts."""
    assert outputs is not None
    return [str(text) for text in predictions(outputs)]


def tokens(text: str, options: TextOptions, unit: str) -> list[str]:
    return SPLITS[unit](normalised(text, options.normalise))


def counts(reference: str, text: str, options: TextOptions, unit: str) -> tuple[int, int]:
    """Errors of the text, and words (or characters) of the reference."""
    expected = tokens(reference, options, unit)
    return edits(expected, tokens(text, options, unit)).errors, len(expected)


def error_rate(reference: str, text: str, options: TextOptions, unit: str) -> float:
    """The error rate of one text; infinite if the reference is empty and the text is not."""
    errors, n = counts(reference, text, options, unit)
    return errors / n if n else math.inf if errors else 0.0


def _rate(errors: int, n: int, unit: str) -> float | Missing:
    if n == 0:
        # an empty transcript of an empty reference is right; a rate cannot express any other
        return 0.0 if errors == 0 else Missing(f"the reference has no {unit}s; {errors} were added")
    return errors / n
