"""Cross-entropy of the true class: the usual training of a classifier."""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.types import Batch, Output
from limen.models.base.model import Model
from limen.objectives.base.objective import ObjectiveOptions


class CrossEntropy(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("class",)
    default_for: ClassVar[tuple[Output, ...]] = ("class",)

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Probability that is spread evenly over all classes."""


def cross_entropy(
    model: Model, batch: Batch, streams: Sequence[torch.Generator], options: CrossEntropy
) -> Tensor:
    assert isinstance(batch.y, Tensor)
    logits = model(batch.x, batch.lengths, streams)
    return F.cross_entropy(logits, batch.y, reduction="none", label_smoothing=options.label_smoothing)
