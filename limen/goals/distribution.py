r"""A whole distribution: k classes with chosen probabilities, in order. A "very targeted" attack (appendix
D.3.1 of Olivier 2023).

The target y puts a point of the unit simplex on k classes drawn in order; the attacker lowers KL(y || f(x))
and has reached the goal when the k largest outputs are those classes in that order. (The other divergence,
KL(f(x) || y), is infinite: most classes have no share in y.)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Outputs, Transcripts
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class Distribution(GoalOptions):
    targeted: ClassVar[bool] = True

    k: int = Field(default=3, ge=1)
    """Classes that get a share; the larger, the more targeted."""


@dataclass(frozen=True)
class _Distribution(Goal):
    """`reference` holds (B, K) probabilities, `wanted` the (B, k) classes in falling order."""

    wanted: Tensor | None = None

    def _nll(self, outputs: Tensor | Transcripts) -> Tensor:
        assert isinstance(outputs, Tensor)
        return F.kl_div(outputs.log_softmax(1), self.reference, reduction="none").sum(1)

    def _reached(self, outputs: Tensor | Transcripts) -> Tensor:
        assert isinstance(outputs, Tensor)
        assert self.wanted is not None
        return (outputs.topk(self.wanted.shape[1], dim=1).indices == self.wanted).all(1)

    def _judged(self, outputs: Tensor | Transcripts) -> Tensor:
        return self._reached(outputs)

    def _margin(self, outputs: Tensor | Transcripts) -> Tensor:
        """How far the wanted classes stand above the next one, each above the one that should follow."""
        assert isinstance(outputs, Tensor)
        assert self.wanted is not None
        mine = outputs.gather(1, self.wanted)
        rest = outputs.scatter(1, self.wanted, -torch.inf).amax(1, keepdim=True)
        return (mine - torch.cat([mine[:, 1:], rest], 1)).amin(1)

    def score(self, outputs: Outputs) -> Tensor:
        return self.loss(outputs)


def distribution(asked: GoalContext, options: Distribution) -> Goal:
    logits = asked.own
    if not isinstance(logits, Tensor):
        raise UserError(
            "The goal distribution needs a classifier, but this model gives transcripts. Use the goal "
            '"transcript".'
        )
    classes = logits.shape[1]
    if options.k > classes:
        raise UserError(
            f"goal distribution: k must be at most the number of classes, {classes}, but {options.k} came."
        )
    targets = torch.zeros(logits.shape)
    wanted = torch.zeros(len(logits), options.k, dtype=torch.long)
    for row, order, g in zip(targets, wanted, asked.generators, strict=True):
        chosen = torch.randperm(classes, generator=g)[: options.k]
        shares = -torch.log1p(
            -torch.rand(options.k, generator=g)
        )  # exponential numbers, normalised, are uniform on the simplex
        row[chosen] = shares / shares.sum()
        order[:] = chosen[shares.argsort(descending=True)]
    return _Distribution(targets.to(logits), targeted=True, wanted=wanted.to(logits.device))
