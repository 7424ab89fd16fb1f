"""The distance between the model's signal and the true one: training of an enhancer."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Batch, Output, Values, valid
from limen.models.base.model import Model
from limen.objectives.base.objective import ObjectiveOptions


class Enhancement(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("signal",)
    default_for: ClassVar[tuple[Output, ...]] = ("signal",)

    distance: Literal["l1", "l2"] = "l1"
    """"l1": mean absolute difference; "l2": mean squared difference. Padding is not counted."""


def enhancement(
    model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Enhancement
) -> Tensor:
    outputs = model(batch.x, batch.lengths, streams)
    if not isinstance(outputs, Values) or not isinstance(batch.y, Tensor):
        raise UserError("The objective enhancement needs a model whose output is a signal, and true signals.")
    difference = outputs.values - batch.y
    each = difference.abs() if options.distance == "l1" else difference.square()
    mask = valid(batch.x, batch.lengths)
    if mask is None:
        return each.flatten(1).mean(1)
    return (each * mask).sum(1) / mask.sum(1)
