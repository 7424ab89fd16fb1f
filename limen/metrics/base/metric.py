"""What a metric declares and returns: columns with one number per sample.

A value that cannot be computed is a `Missing` with the reason; a row is never dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from limen.core.options import Options
from limen.core.text import How, normalised
from limen.core.types import OUTPUTS, Output, Outputs, Samples, predictions


@dataclass(frozen=True)
class Missing:
    reason: str


Columns = dict[str, list[float | Missing]]
"""Column name (with its unit: snr_db, peak_db_vocal) -> one value per sample."""


Figure = Literal["mean", "median", "share", "rate", "none"]
"""Which number represents a column for a set of samples; "none": the column holds text."""


@dataclass(frozen=True)
class Column:
    """What a column means, how its values are shown, and which number represents it for a set.

    Every table (console, report, `limen measure`) is built from these declarations.
    """

    meaning: str
    unit: str = ""
    better: Literal["", "higher", "lower"] = ""
    """Direction that is better for the model or for the attacker's stealth; empty if neither."""
    heading: str = ""
    """Short heading in tables, with the unit: "SNR, dB". Empty: the name of the column."""
    format: str = ""
    """How a value is shown: "%" as a percentage, "n" as a count, or digits and a letter, "1f" (one decimal)
    or "3g" (three significant digits). Empty: "%" for shares and rates, "3g" for the rest."""
    headline: bool | str = False
    """True if the short tables show the column; "picture", "clip", "class" or "transcript": only for samples
    or model outputs of that kind."""
    figure: Figure | Literal[""] = ""
    """Number that represents the column for a set. Empty: "share" if binary, "rate" if pooled, "mean" if
    `share`, else "median"."""
    needs_attack: bool = False
    """True if the column has no meaning for samples that were not attacked: tables show a dash."""
    binary: bool = False
    """True if the values are 0 and 1: the mean is a share with Wilson's interval."""
    unless: str = ""
    """Name of another binary column; samples for which that one is 1 are left out of the share."""
    share: bool = False
    """True if the values are between 0 and 1: the interval of their mean is cut to that range."""
    pooled: tuple[str, str] | None = None
    """Two columns of counts, (word_errors, words): the column is represented by total over total, never by a
    mean over samples, which is written as `<column>_mean`."""

    def __post_init__(self) -> None:
        counted: Figure = (
            "share" if self.binary else "rate" if self.pooled else "mean" if self.share else "median"
        )
        object.__setattr__(self, "figure", self.figure or counted)
        percent = self.figure in ("share", "rate") or self.share
        object.__setattr__(self, "format", self.format or ("%" if percent else "3g"))

    def is_headline(self, kind: str | None, output: str | None) -> bool:
        """Whether short tables of samples of this kind, and models of this output, show the column."""
        return self.headline is True or self.headline in (kind, output)


def formatted(value: float | None, how: str) -> str:
    """One value as plain text, in a format of `Column`; a dash if there is none."""
    if value is None:
        return "-"
    if how == "%":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if how == "n" else f"{value:.{how}}"


class MetricOptions(Options):
    """Options of a metric; class variables declare what it needs, `columns` what it returns."""

    kinds: ClassVar[tuple[str, ...]] = ("picture", "clip")
    """Kinds of samples it can measure."""
    outputs: ClassVar[tuple[Output, ...]] = OUTPUTS
    """Outputs of models that it can measure."""
    needs_model: ClassVar[bool] = False
    """True if it uses the model's outputs; such metrics are left out of `limen measure`."""
    on_request: ClassVar[bool] = False
    """True if it is so slow that it is only computed if an experiment names it."""

    def columns(self) -> dict[str, Column]:
        """Every column that the metric returns with these options."""
        raise NotImplementedError


EMPTY = Missing("the sample is empty")
NOT_FINITE = Missing("the sample holds NaN or infinity")
UNCHANGED = Missing("nothing was changed")
SILENT = Missing("the clean sample is silent")
NO_ANSWER = Missing("the model returned NaN")


def per_pair(
    samples: Samples, function: Callable[[Tensor, Tensor], float | Missing]
) -> list[float | Missing]:
    """(B,): `function(x, x_adv)` of each pair, without padding, in double precision, on the CPU.

    Missing for a pair that is not finite.
    """
    values: list[float | Missing] = []
    for i in range(len(samples.batch)):
        x, x_adv = (t.detach().to("cpu", torch.float64) for t in samples.pair(i))
        finite = bool(torch.isfinite(x).all()) and bool(torch.isfinite(x_adv).all())
        values.append(EMPTY if x.numel() == 0 else function(x, x_adv) if finite else NOT_FINITE)
    return values


def both(samples: Samples, name: str, answer: Callable[[Outputs], Tensor | list[bool]]) -> Columns:
    """{clean_name, name}: `answer` of the model's clean and adversarial outputs; Missing if those are NaN."""
    columns: Columns = {}
    for column, outputs in ((f"clean_{name}", samples.clean), (name, samples.adversarial)):
        assert outputs is not None
        columns[column] = _numbers(answer(outputs), outputs)
    return columns


def _numbers(values: Tensor | list[bool], outputs: Outputs) -> list[float | Missing]:
    numbers = values.tolist() if isinstance(values, Tensor) else values
    return [NO_ANSWER if bad else float(v) for v, bad in zip(numbers, unanswered(outputs), strict=True)]


def unanswered(outputs: Outputs) -> list[bool]:
    """(B,): whether the logits hold NaN, so that the largest of them means nothing."""
    return (
        outputs.isnan().any(1).tolist()
        if isinstance(outputs, Tensor)
        else [False] * len(predictions(outputs))
    )


def unless_refused(values: list[float | Missing], refused: Tensor | None) -> list[float | Missing]:
    """The values, 0 where a detector refused the sample: it has no answer that could count."""
    if refused is None:
        return values
    return [0.0 if r else value for value, r in zip(values, refused.tolist(), strict=True)]


def comparable(answers: Tensor | list[str], how: How) -> Tensor | list[str]:
    """Normalised texts; classes unchanged."""
    return answers if isinstance(answers, Tensor) else [normalised(text, how) for text in answers]
