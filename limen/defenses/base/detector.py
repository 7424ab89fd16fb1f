"""A model that refuses suspicious samples instead of answering."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from limen.core.types import GuardedOutputs, Outputs
from limen.defenses.base.defended import Defended
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class Detector(Defended):
    """Refuses every sample whose score is above the threshold. A subclass writes `score`.

    The score is part of the answer, so attacks can use it: a sample that is refused has not reached its goal,
    and the loss of the search falls with every score above the threshold.
    """

    def __init__(self, model: Model, options: DefenseOptions, threshold: float):
        super().__init__(model, options)
        self.refuses, self.threshold = True, threshold

    def score(
        self,
        x: Tensor,
        outputs: Outputs,
        lengths: Tensor | None,
        generators: Sequence[torch.Generator] | None,
    ) -> Tensor:
        """(B,) how suspicious the samples are, differentiable; `outputs` are the inner model's answers."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> GuardedOutputs:
        outputs = self.inner(x, lengths, generators)
        suspicion = self.score(x, outputs, lengths, generators) - self.threshold
        if isinstance(outputs, GuardedOutputs):  # one of two detectors is enough to refuse a sample
            return GuardedOutputs(outputs.answers, torch.maximum(outputs.suspicion, suspicion))
        return GuardedOutputs(outputs, suspicion)


def threshold_for(scores: Tensor, false_positive_rate: float) -> float:
    """The smallest threshold that refuses at most this share of the clean samples with these scores (N,)."""
    rank = math.ceil((1 - false_positive_rate) * len(scores))
    return float(scores.sort().values[max(rank, 1) - 1])
