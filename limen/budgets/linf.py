"""Every pixel or sample may change by at most eps."""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import LinfBall
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class Linf(BudgetOptions):
    bound = "eps"
    column = "linf"
    text = "L∞ ≤ {}"
    sentence = "may change each value by at most {}"
    heading = "L∞ norm of the change"
    probed_by_queries = True
    example: ClassVar[dict[str, Any]] = {"eps": 0.03}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units (0.031 is 8/255 for pictures in [0, 1])."""


def linf(context: BudgetContext, options: Linf) -> LinfBall:
    return LinfBall(context.x.new_full((len(context.x),), options.eps))
