"""A chosen language: a multilingual recogniser must detect it in the clip, and then transcribes in it.

Olivier and Raj 2023, https://arxiv.org/abs/2210.17316, section 4: the language detector is a classifier; its
cross-entropy is the loss.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Outputs, Transcripts
from limen.goals.base.goal import Goal, GoalContext, members
from limen.goals.base.options import GoalOptions


class Language(GoalOptions):
    targeted = True
    outputs = ("transcript",)

    target: str = Field(default="sr", min_length=2)
    """Code of the language, as the model names it: en, sr, tl, ..."""


@dataclass(frozen=True)
class _Language(Goal):
    """`reference` holds the number of the wanted language, one per sample."""

    @property
    def target(self) -> None:
        return None

    def _nll(self, outputs: Tensor | Transcripts) -> Tensor:
        logits = outputs.language_logits  # type: ignore[union-attr]
        return F.cross_entropy(logits, self.reference.to(logits.device), reduction="none")

    def _reached(self, outputs: Tensor | Transcripts) -> Tensor:
        logits = outputs.language_logits  # type: ignore[union-attr]
        return logits.argmax(1) == self.reference.to(logits.device)

    def _judged(self, outputs: Tensor | Transcripts) -> Tensor:
        return self._reached(outputs)

    def score(self, outputs: Outputs) -> Tensor:
        return self.loss(outputs)


def language(context: GoalContext, options: Language) -> Goal:
    known: list[str] = []
    for clean in members(context.clean):
        known = getattr(clean, "languages", None) or []
        if not known:
            raise UserError(
                "The goal language needs a model that detects languages, such as whisper with size base."
            )
        if options.target not in known:
            raise UserError(
                f"goal language: this model has no language {options.target!r}. It has {', '.join(known)}."
            )
    return _Language(torch.full((len(context.y),), known.index(options.target)), targeted=True)
