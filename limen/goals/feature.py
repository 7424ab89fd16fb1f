r"""Features far from the clean ones: an attack on a self-supervised encoder that needs no transcript and
transfers to models fine-tuned from it.

Inkawhich et al. 2020, https://arxiv.org/abs/2004.14861; on wav2vec 2.0, Olivier et al. 2022,
https://arxiv.org/abs/2209.13523. The loss is

    || f(x_adv) - f(x) ||^2,    f(x): the encoder's last hidden states

A search makes all its steps, because no distance is far enough. Success is judged by the victim's transcript,
which must differ from the truth. At the clean sample the gradient is zero, so the search must start elsewhere
(random_start).
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.core.text import How
from limen.core.types import Outputs
from limen.goals.base.goal import Goal, GoalContext, members, truths
from limen.goals.base.options import GoalOptions


class Feature(GoalOptions):
    outputs = ("transcript", "embedding")

    normalise: How = "words"
    """How the victim's text and the truth are compared: see the metric wer."""


@dataclass(frozen=True)
class FeatureGoal(Goal):
    """`reference` holds the true transcripts, by which victims are judged."""

    keeps_padding = True
    clean: tuple[Tensor, ...] = ()
    """(B, F, C) clean features of each model."""

    def loss(self, outputs: Outputs) -> Tensor:
        pairs = zip(members(outputs), self.clean, strict=True)
        return torch.stack(
            [(features_of(one, "feature") - clean).square().sum((1, 2)) for one, clean in pairs]
        ).sum(0)

    def reached(self, outputs: Outputs) -> Tensor:
        return torch.zeros(len(self.reference), dtype=torch.bool)

    def rows(self, index: Tensor) -> "FeatureGoal":
        return replace(
            self,
            reference=[self.reference[i] for i in index.tolist()],
            clean=tuple(c[index.to(c.device)] for c in self.clean),
        )


def feature(context: GoalContext, options: Feature) -> Goal:
    clean = tuple(features_of(one, "feature").detach() for one in members(context.clean))
    return FeatureGoal(truths(context, "feature"), targeted=False, normalise=options.normalise, clean=clean)


def features_of(outputs: Any, who: str) -> Tensor:
    """(B, F, C)."""
    features = getattr(outputs, "features", None)
    if features is None:
        raise UserError(
            f"The goal {who} needs a model that gives its features, such as wav2vec2_small or "
            "huggingface_ctc."
        )
    return features
