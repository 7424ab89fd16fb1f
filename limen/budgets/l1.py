"""The sum of the magnitudes of all changes is at most eps."""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import L1Ball
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class L1(BudgetOptions):
    bound = "eps"
    column = "l1"
    text = "L1 ≤ {}"
    sentence = "may change the sample by at most {} in total (L1)"
    heading = "L1 norm of the change"
    example: ClassVar[dict[str, Any]] = {"eps": 10.0}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units."""


def l1(context: BudgetContext, options: L1) -> L1Ball:
    return L1Ball(context.x.new_full((len(context.x),), options.eps))
