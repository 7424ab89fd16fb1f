"""The signal stays at least snr_db decibels above the change, in power over the valid samples."""

from typing import Any, ClassVar

from limen.budgets.families.balls import L2Ball, length
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class Snr(BudgetOptions):
    bound = "snr_db"
    column = "snr_db"
    larger_is_stronger = False
    text = "SNR ≥ {} dB"
    sentence = "must keep the change at least {} dB below the signal"
    heading = "SNR, dB (larger is quieter)"
    nothing_at = None
    example: ClassVar[dict[str, Any]] = {"snr_db": 30}

    snr_db: float
    """20 log10(||x|| / ||delta||) must not fall below this; larger is quieter."""


def snr(context: BudgetContext, options: Snr) -> L2Ball:
    # padding is zero, so the norm over the padded clip is the norm over its valid samples
    return L2Ball(length(context.x) / 10 ** (options.snr_db / 20))
