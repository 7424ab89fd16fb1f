r"""A high contrastive loss of a self-supervised encoder: it no longer distinguishes a clip's frames from
others.

wav2vec 2.0, Baevski et al. 2020, https://arxiv.org/abs/2006.11477, equation 3; as an attack, Olivier et al.
2022, https://arxiv.org/abs/2209.13523. Targets are the quantised frames of the clean clip and stay fixed;
masked spans and distractors are drawn once for each sample. A search makes all its steps. Success is judged
by the victim's transcript, which must differ from the truth.
"""

from dataclasses import dataclass, replace

import torch
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.text import How
from limen.core.types import Outputs
from limen.goals.base.goal import Goal, GoalContext, members, truths
from limen.goals.base.options import GoalOptions
from limen.models.speech.self_supervised import Encoded


class Contrastive(GoalOptions):
    outputs = ("transcript", "embedding")

    hide: bool = True
    """The masked frames are hidden from the encoder, as in pre-training; if false it gets every frame."""
    span_starts: float = Field(default=0.065, gt=0, le=1)
    """Probability that a frame starts a masked span; the loss counts the masked frames only."""
    span_frames: int = Field(default=10, ge=1)
    """Frames in a masked span."""
    normalise: How = "words"
    """How the victim's text and the truth are compared: see the metric wer."""


@dataclass(frozen=True)
class Frozen:
    """Targets, masks and distractors of the clean clips for one model; they stay fixed during a search."""

    targets: Tensor
    codes: Tensor
    negatives: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> "Frozen":
        i = index.to(self.mask.device)
        return Frozen(self.targets[i], self.codes[i], self.negatives[i], self.mask[i])


@dataclass(frozen=True)
class ContrastiveGoal(Goal):
    """`reference` holds the true transcripts, by which victims are judged."""

    keeps_padding = True
    frozen: tuple[Frozen, ...] = ()
    hide: bool = True

    def loss(self, outputs: Outputs) -> Tensor:
        pairs = zip(members(outputs), self.frozen, strict=True)
        return torch.stack(
            [encoded(one).contrastive(f.targets, f.codes, f.negatives, f.mask, self.hide) for one, f in pairs]
        ).sum(0)

    def reached(self, outputs: Outputs) -> Tensor:
        return torch.zeros(len(self.reference), dtype=torch.bool)

    def rows(self, index: Tensor) -> "ContrastiveGoal":
        return replace(
            self,
            reference=[self.reference[i] for i in index.tolist()],
            frozen=tuple(f.rows(index) for f in self.frozen),
        )


def contrastive(context: GoalContext, options: Contrastive) -> Goal:
    frozen = tuple(_freeze(encoded(one), context, options) for one in members(context.clean))
    return ContrastiveGoal(
        truths(context, "contrastive"),
        targeted=False,
        normalise=options.normalise,
        frozen=frozen,
        hide=options.hide,
    )


@torch.no_grad()
def _freeze(clean: Encoded, context: GoalContext, options: Contrastive) -> Frozen:
    codes = clean.codes()
    mask, negatives = clean.drawn(context.generators, options.span_starts, options.span_frames)
    return Frozen(clean.targets(codes), codes, negatives, mask)


def encoded(outputs: object) -> Encoded:
    if not isinstance(outputs, Encoded):
        raise UserError(
            "The goal contrastive needs a self-supervised encoder with its quantiser: {name: wav2vec2_small, "
            'head: pretraining, weights: "zoo:ssl"}. For a recogniser use the goal feature.'
        )
    return outputs
