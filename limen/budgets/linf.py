"""Every pixel or sample may change by at most eps."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from limen.budgets.families.balls import LinfBall
from limen.core.options import Options


class Linf(Options):
    example: ClassVar[dict[str, Any]] = {"eps": 0.03}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units (0.031 is 8/255 for pictures in [0, 1])."""


def linf(x: Tensor, lengths: Tensor | None, options: Linf) -> LinfBall:
    return LinfBall(x.new_full((len(x),), options.eps))
