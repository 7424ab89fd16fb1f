"""The signal stays at least snr_db decibels above the change, in power over the valid samples."""

from typing import Any, ClassVar

from torch import Tensor

from limen.budgets.families.balls import L2Ball, length
from limen.core.options import Options


class Snr(Options):
    example: ClassVar[dict[str, Any]] = {"snr_db": 30}

    snr_db: float
    """20 log10(||x|| / ||delta||) must not fall below this; larger is quieter."""


def snr(x: Tensor, lengths: Tensor | None, options: Snr) -> L2Ball:
    # padding is zero, so the norm over the padded clip is the norm over its valid samples
    return L2Ball(length(x) / 10 ** (options.snr_db / 20))
