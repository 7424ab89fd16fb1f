"""At most `count` values of a sample may change, each as far as the range allows."""

from typing import Any, ClassVar

from pydantic import Field

from limen.budgets.families.balls import L0Ball
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions


class L0(BudgetOptions):
    bound = "count"
    column = "l0"
    text = "L0 ≤ {}"
    sentence = "may change at most {} values"
    heading = "values changed"
    scalable = False
    example: ClassVar[dict[str, Any]] = {"count": 10}

    count: int = Field(ge=1)
    """How many values (a pixel's channels count one by one) may change."""


def l0(context: BudgetContext, options: L0) -> L0Ball:
    return L0Ball(context.x.new_full((len(context.x),), float(options.count)))
