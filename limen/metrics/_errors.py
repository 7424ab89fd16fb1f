"""What word and character error rates share: texts -> tokens -> errors, per sample and for the whole set."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from limen.edits import Costs, edits
from limen.metrics._metric import Column, Columns, MetricOptions, Missing
from limen.types import Samples, predictions


class ErrorRateOptions(MetricOptions):
    """What error rates take."""

    costs: Costs = "unit"
    """"unit": the fewest errors (Levenshtein); "sclite": align as NIST sclite does, with 4 for a substitution and 3 for the rest."""
    case: Literal["ignore", "keep"] = "ignore"
    """Whether "Yes" and "yes" are the same."""


def rate_columns(rate: str, unit: str) -> dict[str, Column]:
    def column(kind: str, prefix: str) -> Column:
        return Column(f"{unit} error rate of the {kind} sample", better="lower", pooled=(f"{prefix}{unit}_errors", f"{unit}s"))

    return {
        f"clean_{rate}": column("clean", "clean_"),
        rate: column("adversarial", ""),
        f"clean_{unit}_errors": Column(f"wrong, left out and added {unit}s of the clean sample", unit=f"{unit}s", better="lower"),
        f"{unit}_errors": Column(f"wrong, left out and added {unit}s of the adversarial sample", unit=f"{unit}s", better="lower"),
        f"{unit}s": Column(f"{unit}s that were said", unit=f"{unit}s"),
    }


def error_rates(samples: Samples, options: ErrorRateOptions, rate: str, unit: str, split: Callable[[str], list[str]]) -> Columns:
    truths = samples.batch.y
    assert not isinstance(truths, Tensor)
    columns: Columns = {name: [] for name in options.columns()}
    references = [_tokens(t, options, split) for t in truths]
    columns[f"{unit}s"] = [float(len(r)) for r in references]
    for prefix, outputs in (("clean_", samples.clean), ("", samples.adversarial)):
        assert outputs is not None
        for reference, text in zip(references, predictions(outputs), strict=True):
            errors = edits(reference, _tokens(str(text), options, split), options.costs).errors
            columns[f"{prefix}{unit}_errors"].append(float(errors))
            columns[f"{prefix}{rate}"].append(_rate(errors, len(reference), unit))
    return columns


def _tokens(text: str, options: ErrorRateOptions, split: Callable[[str], list[str]]) -> list[str]:
    return split(text.lower() if options.case == "ignore" else text)


def _rate(errors: int, n: int, unit: str) -> float | Missing:
    if n == 0:
        # nothing said and nothing heard is right; anything heard is an error that no rate can express
        return 0.0 if errors == 0 else Missing(f"the reference has no {unit}s; {errors} were added")
    return errors / n
