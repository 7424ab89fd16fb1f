"""At most `count` values of a sample may change, each as far as the range allows."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from limen.budgets.families.balls import L0Ball
from limen.core.options import Options


class L0(Options):
    example: ClassVar[dict[str, Any]] = {"count": 10}

    count: int = Field(ge=1)
    """How many values (a pixel's channels count one by one) may change."""


def l0(x: Tensor, lengths: Tensor | None, options: L0) -> L0Ball:
    return L0Ball(x.new_full((len(x),), float(options.count)))
