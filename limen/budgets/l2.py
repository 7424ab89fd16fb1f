"""The Euclidean norm of the change is at most eps."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from limen.budgets.families.balls import L2Ball
from limen.core.options import Options


class L2(Options):
    example: ClassVar[dict[str, Any]] = {"eps": 1.0}

    eps: float = Field(gt=0)
    """Radius of the ball, in input units."""


def l2(x: Tensor, lengths: Tensor | None, options: L2) -> L2Ball:
    return L2Ball(x.new_full((len(x),), options.eps))
