r"""The contrastive loss of a self-supervised encoder, raised: it no longer tells the clip's own frames from
others.

wav2vec 2.0, Baevski et al. 2020, https://arxiv.org/abs/2006.11477, equation 3; as an attack, Olivier et al.
2022, https://arxiv.org/abs/2209.13523. Targets are the quantised frames of the clean clip and stay what they
are; masked spans and distractors are drawn once for each sample. A search ends with its steps. Judged by the
victim's transcript, which must differ from the truth.
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
    hide: bool = True
    """The masked frames are hidden from the encoder, as in pre-training; if false it sees the whole clip."""
    span_starts: float = Field(default=0.065, gt=0, le=1)
    """Probability that a frame starts a masked span; the loss is that of the masked frames."""
    span_frames: int = Field(default=10, ge=1)
    """Frames in a masked span."""
    normalise: How = "words"
    """How the victim's text and the truth are compared: see the metric wer."""


@dataclass(frozen=True)
class Frozen:
    """What stays as it was for the clean clips, of one model."""

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

    framed = True
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


def contrastive(asked: GoalContext, options: Contrastive) -> Goal:
    frozen = tuple(_freeze(encoded(one), asked, options) for one in members(asked.clean))
    return ContrastiveGoal(
        truths(asked, "contrastive"),
        targeted=False,
        normalise=options.normalise,
        frozen=frozen,
        hide=options.hide,
    )


@torch.no_grad()
def _freeze(clean: Encoded, asked: GoalContext, options: Contrastive) -> Frozen:
    codes = clean.codes()
    mask, negatives = clean.drawn(asked.generators, options.span_starts, options.span_frames)
    return Frozen(clean.targets(codes), codes, negatives, mask)


def encoded(outputs: object) -> Encoded:
    if not isinstance(outputs, Encoded):
        raise UserError(
            "The goal contrastive needs a self-supervised encoder with its quantiser: {name: wav2vec2_small, "
            'head: pretraining, weights: "zoo:ssl"}. Of a recogniser, the goal feature moves the features.'
        )
    return outputs
