"""Negative log-likelihood of the true transcript, per token: the usual training of a recogniser.

For CTC it is a sum over all alignments; for a decoder, the true text is given token by token. A model with
both heads adds the two losses, weighted by its options (`Model.transcript_loss`).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from limen.core.types import Batch, Output
from limen.models.base.model import Model
from limen.objectives.base.objective import ObjectiveOptions


class Transcript(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("transcript",)
    default_for: ClassVar[tuple[Output, ...]] = ("transcript",)


def transcript(model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Transcript) -> Tensor:
    assert not isinstance(batch.y, Tensor)
    return model.transcript_loss(model(batch.x, batch.lengths, streams), batch.y)
