"""The sum of the magnitudes of all changes is at most eps."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from limen.budgets.families.balls import L1Ball
from limen.core.options import Options


class L1(Options):
    example: ClassVar[dict[str, Any]] = {"eps": 10.0}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units."""


def l1(x: Tensor, lengths: Tensor | None, options: L1) -> L1Ball:
    return L1Ball(x.new_full((len(x),), options.eps))
