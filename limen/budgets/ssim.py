"""The structural similarity between the clean and the changed picture stays near 1: 1 - SSIM <= distance.

Wang et al. 2004, https://doi.org/10.1109/TIP.2003.819861, as in `limen/perception/similarity.py`. Measured in
double precision, because 1 - SSIM is a small difference of large numbers.
"""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.distances import BoundedDistance
from limen.budgets.families.options import BudgetOptions
from limen.perception import similarity


class Ssim(BudgetOptions):
    bound = "distance"
    text = "1 − SSIM ≤ {}"
    sentence = "may lower the structural similarity to the clean picture by at most {} (1 − SSIM)"
    heading = "1 − SSIM (0: no difference)"
    kinds = ("picture",)
    example: ClassVar[dict[str, Any]] = {"distance": 0.02}

    distance: float = Field(gt=0, le=1)
    """Largest 1 - SSIM; changes below 0.02 are hard to see in most pictures."""


def ssim(context: BudgetContext, options: Ssim) -> BoundedDistance:
    low, high = context.range
    bound = context.x.new_full((len(context.x),), options.distance)
    return BoundedDistance(bound, context.x, _distance, low, high, context.lengths, "ssim")


def _distance(x: Tensor, x_adv: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, C, H, W), (B, C, H, W) -> (B,)."""
    return 1 - similarity.ssim(x_adv.double(), x.double())
