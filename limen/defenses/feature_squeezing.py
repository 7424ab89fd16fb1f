r"""Refuse pictures whose answer changes when they are squeezed. Xu et al. 2018,
https://arxiv.org/abs/1704.01155:

    score(x) = max over squeezers s of || softmax f(x) - softmax f(s(x)) ||_1,  between 0 and 2

A sample is refused if its score is above the threshold. The squeezers are a reduced number of levels per
colour value and a median filter; the paper's third one, non-local means, is left out. The threshold depends
on the model: the paper takes the score that 95 % of the clean validation samples stay below. With threshold
0, `limen.defend(model, ...)(x).suspicion` is the score. An attacker differentiates the rounding as the
identity (BPDA).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from limen.core.types import Kind, Output, Outputs, answers_of
from limen.defenses.base.defended import straight_through
from limen.defenses.base.detector import Detector
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class FeatureSqueezing(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)
    outputs: ClassVar[tuple[Output, ...]] = ("class",)
    example: ClassVar[dict[str, Any]] = {"threshold": 1.0}

    threshold: float = Field(ge=0, le=2)
    """Samples with a higher score are refused."""
    bits: int | None = Field(default=5, ge=1, le=16)
    """Bits per colour value, 1 for digits and 5 for photographs in the paper; null: without this squeezer."""
    median: int | None = Field(default=2, ge=2)
    """Side of the median filter in pixels; null: without this squeezer."""

    @model_validator(mode="after")
    def _some_squeezer(self) -> "FeatureSqueezing":
        if self.bits is None and self.median is None:
            raise ValueError("at least one of bits and median must be given, got null for both")
        return self


class Squeezing(Detector):
    def __init__(self, model: Model, options: FeatureSqueezing):
        super().__init__(model, options, options.threshold)
        self.options = options

    def score(
        self,
        x: Tensor,
        outputs: Outputs,
        lengths: Tensor | None,
        generators: Sequence[torch.Generator] | None,
    ) -> Tensor:
        plain = _probabilities(outputs)
        squeezed = []
        if self.options.bits is not None:
            levels = 2**self.options.bits - 1
            squeezed.append(straight_through(x, (x * levels).round().clamp(0, levels) / levels))
        if self.options.median is not None:
            squeezed.append(median_filter(x, self.options.median))
        changes = [
            (plain - _probabilities(self.inner(one, lengths, generators))).abs().sum(1) for one in squeezed
        ]
        return torch.stack(changes).amax(0)


def median_filter(x: Tensor, size: int) -> Tensor:
    """(B, C, H, W) -> the same shape. Windows of even size reach one pixel further to the upper left, and
    their median is the larger of the two middle values; edges are reflected (as scipy.ndimage does)."""
    before, after = size // 2, (size - 1) // 2
    rows = _reflected(x.shape[2], before, after).to(x.device)
    columns = _reflected(x.shape[3], before, after).to(x.device)
    windows = x[:, :, rows][:, :, :, columns].unfold(2, size, 1).unfold(3, size, 1)
    return windows.flatten(4).sort(4).values[..., size * size // 2]


def _reflected(length: int, before: int, after: int) -> Tensor:
    """Positions of a line that is extended by mirroring, the edge included: 1 0 | 0 1 2 | 2 1."""
    index = torch.arange(-before, length + after) % (2 * length)
    return torch.minimum(index, 2 * length - 1 - index)


def _probabilities(outputs: Outputs) -> Tensor:
    logits = answers_of(outputs)
    assert isinstance(logits, Tensor)
    return F.softmax(logits, 1)


def feature_squeezing(model: Model, options: FeatureSqueezing) -> Model:
    return Squeezing(model, options)
