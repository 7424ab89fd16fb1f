r"""Each value may change by at most a share of the variation around it: more in texture than in flat areas.

    |delta_i| <= share * s_i

pictures    s_i is the standard deviation in a square window around pixel i, in each channel
clips       s_i is the root mean square of the samples in a window around sample i

Where nothing varies, as in a plain background or in silence, nothing may change. Windows are cut off at the
edges of a sample; padding is not counted.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from limen.budgets.families.boxes import Box
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import BudgetOptions
from limen.core.errors import UserError
from limen.core.types import valid


class LocalLinf(BudgetOptions):
    bound = "share"
    text = "change ≤ {} of the local variation"
    sentence = "may change each value by at most {} of the variation around it"
    heading = "change as a share of the local variation"
    example: ClassVar[dict[str, Any]] = {"share": 0.5}

    share: float = Field(gt=0)
    """Largest change of a value, as a share of the standard deviation (pictures) or root mean square (clips)
    around it."""
    window: int = Field(default=5, ge=3)
    """Side of the window around a pixel, in pixels; even sides are rounded up."""
    window_ms: float = Field(default=20.0, gt=0)
    """Length of the window around a sample of a clip, in milliseconds."""


def local_linf(context: BudgetContext, options: LocalLinf) -> Box:
    if context.kind == "picture":
        spread = _deviation(context.x, options.window // 2)
    else:
        if context.rate_hz is None:
            raise UserError(
                "The budget local_linf needs the sample rate of the clips, which this model does not state. "
                "Set rate_hz of the model, or use the budget snr."
            )
        mask = valid(context.x, context.lengths)
        half = max(1, round(options.window_ms / 2000 * context.rate_hz))
        spread = _level(context.x, torch.ones_like(context.x) if mask is None else mask.to(context.x), half)
    return Box.symmetric(options.share * spread, "local_linf")


def _deviation(x: Tensor, half: int) -> Tensor:
    """(B, C, H, W) -> (B, C, H, W) standard deviations of the pixels at most `half` away."""
    window = lambda t: F.avg_pool2d(t, 2 * half + 1, 1, half, count_include_pad=False)
    # centred first: less is lost when the squares are subtracted
    centred = x.double() - x.double().mean((2, 3), keepdim=True)
    variance = window(centred.square()) - window(centred).square()
    # rounding must not let a flat region change
    flat = -F.max_pool2d(-x, 2 * half + 1, 1, half) == F.max_pool2d(x, 2 * half + 1, 1, half)
    return torch.where(flat, 0, variance.clamp_min(0).sqrt()).to(x)


def _level(x: Tensor, mask: Tensor, half: int) -> Tensor:
    """(B, T) -> (B, T) root mean squares of the valid samples at most `half` away."""
    # pooled, not differences of running sums: those leave rounding errors in silence
    window = lambda t: F.avg_pool1d(t.double()[:, None], 2 * half + 1, 1, half).squeeze(1)
    return (window(x.square() * mask) / window(mask).clamp_min(1e-9)).sqrt().to(x) * mask
