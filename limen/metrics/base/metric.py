"""One number per sample. A metric that cannot be computed gives a `Missing` with the reason; a row is never
dropped."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from limen.core.options import Options
from limen.core.text import How, normalised
from limen.core.types import Outputs, Samples, predictions


@dataclass(frozen=True)
class Missing:
    reason: str


Columns = dict[str, list[float | Missing]]
"""Column name (with its unit: snr_db, peak_db_vocal) -> one value per sample."""


@dataclass(frozen=True)
class Column:
    """What a column means and how it is shown and summarised."""

    meaning: str
    unit: str = ""
    better: str = ""
    """For the attacker's stealth or the model's good: "higher" or "lower"; empty where neither."""
    binary: bool = False
    """True if the values are 0 and 1: the mean is a share and its interval is Wilson's."""
    unless: str = ""
    """Of a binary column: another one of 0 and 1. Samples for which that one holds are left out of the
    share."""
    share: bool = False
    """True if the values lie between 0 and 1: so does the interval of their mean."""
    pooled: tuple[str, str] | None = None
    """Two columns of counts, (word_errors, words): the column stands for a set as total over total, never as
    a mean over samples. That mean has a name of its own, `<column>_mean`."""


class MetricOptions(Options):
    """Class variables say what a metric needs; `columns` says what it gives."""

    kinds: ClassVar[tuple[str, ...]] = ("picture", "clip")
    """Kinds of samples it can measure."""
    outputs: ClassVar[tuple[str, ...]] = ("class", "transcript")
    """Kinds of model outputs it can measure."""
    needs_model: ClassVar[bool] = False
    """True if it looks at what the model answered; such metrics are left out of `limen measure`."""
    on_request: ClassVar[bool] = False
    """True if it is too slow to be computed unless an experiment names it."""

    def columns(self) -> dict[str, Column]:
        """Every column the metric gives with these options."""
        raise NotImplementedError


EMPTY = Missing("the sample is empty")
NOT_FINITE = Missing("the sample holds NaN or infinity")
UNCHANGED = Missing("nothing was changed")
SILENT = Missing("the clean sample is silent")
NO_ANSWER = Missing("the model answered NaN")


def per_pair(
    samples: Samples, function: Callable[[Tensor, Tensor], float | Missing]
) -> list[float | Missing]:
    """`function(x, x_adv)` of each pair: without padding, in double precision, on the CPU. A pair that is not
    finite is Missing."""
    values: list[float | Missing] = []
    for i in range(len(samples.batch)):
        x, x_adv = (t.detach().to("cpu", torch.float64) for t in samples.pair(i))
        finite = bool(torch.isfinite(x).all()) and bool(torch.isfinite(x_adv).all())
        values.append(EMPTY if x.numel() == 0 else function(x, x_adv) if finite else NOT_FINITE)
    return values


def both(samples: Samples, name: str, answer: Callable[[Outputs], Tensor | list[bool]]) -> Columns:
    """{clean_name, name}: what `answer` says of the model's clean and adversarial outputs; Missing where
    those are NaN."""
    columns: Columns = {}
    for column, outputs in ((f"clean_{name}", samples.clean), (name, samples.adversarial)):
        assert outputs is not None
        columns[column] = _numbers(answer(outputs), outputs)
    return columns


def _numbers(values: Tensor | list[bool], outputs: Outputs) -> list[float | Missing]:
    numbers = values.tolist() if isinstance(values, Tensor) else values
    return [NO_ANSWER if bad else float(v) for v, bad in zip(numbers, unanswered(outputs), strict=True)]


def unanswered(outputs: Outputs) -> list[bool]:
    """Rows whose logits hold NaN: the largest of them means nothing."""
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
    """Texts normalised; classes as they are."""
    return answers if isinstance(answers, Tensor) else [normalised(text, how) for text in answers]
