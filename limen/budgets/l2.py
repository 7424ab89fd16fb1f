"""The Euclidean norm of the change is at most eps."""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import L2Ball
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class L2(BudgetOptions):
    bound = "eps"
    column = "l2"
    text = "L2 ≤ {}"
    sentence = "may change the sample by at most {} in Euclidean norm"
    heading = "L2 norm of the change"
    probed_by_queries = True
    example: ClassVar[dict[str, Any]] = {"eps": 1.0}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units."""


def l2(context: BudgetContext, options: L2) -> L2Ball:
    return L2Ball(context.x.new_full((len(context.x),), options.eps))
