r"""The loudest sample of the change stays peak_db below the loudest of the clip.

Carlini and Wagner 2018, https://arxiv.org/abs/1801.01944; equation 1 of Vadillo and Santana 2021:

    dB_{x,max}(delta) = 20 log10 max_i |delta_i| - 20 log10 max_i |x_i|
"""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import LinfBall
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class PeakDb(BudgetOptions):
    bound = "peak_db"
    column = "peak_db"
    text = "peak ≤ {} dB"
    sentence = "must keep the largest change at {} dB or less relative to the largest value of the sample"
    heading = "peak of the change, dB"
    nothing_at = None
    example: ClassVar[dict[str, Any]] = {"peak_db": -30}

    peak_db: float = Field(le=20)
    """20 log10(max|delta| / max|x|) must not exceed this; -32 is what the literature calls acceptable."""


def peak_db(context: BudgetContext, options: PeakDb) -> LinfBall:
    return LinfBall(context.x.flatten(1).abs().amax(1) * 10 ** (options.peak_db / 20))
