"""The Euclidean norm of the change is at most a share of the sample's own: ||delta|| / ||x|| <= share.

A share d is a signal-to-noise ratio of -20 log10 d decibels.
"""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import L2Ball, length
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class Dissimilarity(BudgetOptions):
    bound = "share"
    column = "dissimilarity_l2"
    text = "dissimilarity ≤ {}"
    sentence = "may change the sample by at most {} of its own Euclidean norm (dissimilarity)"
    heading = "dissimilarity (change relative to the sample)"
    example: ClassVar[dict[str, Any]] = {"share": 0.05}

    share: float = Field(gt=0)
    """Largest ||delta|| / ||x||; 0.05 is a signal-to-noise ratio of 26 dB."""


def dissimilarity(context: BudgetContext, options: Dissimilarity) -> L2Ball:
    # padding is zero, so the norm over the padded clip is the norm over its valid samples
    return L2Ball(length(context.x) * options.share)
