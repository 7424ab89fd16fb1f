r"""Distillation: training on the softened class probabilities of a trained teacher.

Hinton et al. 2015, https://arxiv.org/abs/1503.02531, at temperature T:
    (1 - w) T^2 KL( softmax(teacher / T) || softmax(student / T) ) + w CE(student, y)
The factor T^2 preserves the scale of the gradients. The student is evaluated at temperature 1. In defensive
distillation (Papernot et al. 2016, https://arxiv.org/abs/1511.04508), the teacher is trained in the same way
and T is 20 to 100.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.components import spec_of
from limen.core.errors import UserError
from limen.core.types import Batch, Output
from limen.models.base.load import load_model
from limen.models.base.model import Model
from limen.objectives.base.objective import ObjectiveOptions


class Distillation(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("class",)
    example: ClassVar[dict[str, Any]] = {"teacher": {"name": "mlp"}}

    teacher: Annotated[dict[str, Any], spec_of("models")]
    """The teacher: {name: cnn, ...its options}."""
    temperature: float = Field(default=4.0, gt=0)
    """Temperature by which the logits of both models are divided."""
    label_share: float = Field(default=0.0, ge=0, le=1)
    """Weight of the cross-entropy with the true class; the rest is the weight of the teacher."""


def distillation(
    model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Distillation
) -> Tensor:
    assert isinstance(batch.y, Tensor)
    teacher = _teacher(json.dumps(options.teacher, sort_keys=True), str(batch.x.device))
    with torch.no_grad():
        wanted = teacher(batch.x, batch.lengths, streams)
    logits = model(batch.x, batch.lengths, streams)
    if not isinstance(wanted, Tensor) or wanted.shape != logits.shape:
        raise UserError(
            f"The teacher {options.teacher['name']} must be a classifier with the student's classes: its "
            f"outputs must have the shape {tuple(logits.shape)}."
        )
    t = options.temperature
    log_p, log_q = (wanted / t).log_softmax(1), (logits / t).log_softmax(1)
    soft = t * t * (log_p.exp() * (log_p - log_q)).sum(1)
    hard = F.cross_entropy(logits, batch.y, reduction="none")
    return (1 - options.label_share) * soft + options.label_share * hard


@lru_cache(maxsize=1)  # a training has one teacher, and every batch needs it
def _teacher(spec: str, device: str) -> Model:
    return load_model(json.loads(spec)).to(device).requires_grad_(False)
