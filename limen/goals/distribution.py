r"""A chosen distribution: k classes with chosen probabilities, in order. A "very targeted" attack (appendix
D.3.1 of Olivier 2023).

The target y puts a point of the unit simplex on k classes drawn in order; the attacker lowers KL(y || f(x))
and has reached the goal when the k largest outputs are those classes in that order. (The other divergence,
KL(f(x) || y), is infinite: most classes have no share in y.)
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Outputs, Transcripts
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class Distribution(GoalOptions):
    targeted = True
    outputs = ("class",)

    k: int = Field(default=3, ge=1)
    """Number of classes that get a share; the larger, the more targeted."""


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
        """The smallest lead of a wanted class over the one that should follow it."""
        assert isinstance(outputs, Tensor)
        assert self.wanted is not None
        values = outputs.gather(1, self.wanted)
        rest = outputs.scatter(1, self.wanted, -torch.inf).amax(1, keepdim=True)
        return (values - torch.cat([values[:, 1:], rest], 1)).amin(1)

    def score(self, outputs: Outputs) -> Tensor:
        return self.loss(outputs)


def distribution(context: GoalContext, options: Distribution) -> Goal:
    logits = context.own
    assert isinstance(logits, Tensor)
    classes = logits.shape[1]
    if options.k > classes:
        raise UserError(
            f"goal distribution: k must be at most the number of classes, {classes}; got {options.k}."
        )
    targets = torch.zeros(logits.shape)
    wanted = torch.zeros(len(logits), options.k, dtype=torch.long)
    for row, order, g in zip(targets, wanted, context.generators, strict=True):
        chosen = torch.randperm(classes, generator=g)[: options.k]
        # exponential numbers, normalised, are uniform on the simplex
        shares = -torch.log1p(-torch.rand(options.k, generator=g))
        row[chosen] = shares / shares.sum()
        order[:] = chosen[shares.argsort(descending=True)]
    return _Distribution(targets.to(logits), targeted=True, wanted=wanted.to(logits.device))
