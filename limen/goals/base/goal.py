"""What the attacker wants: a loss and a test of success per sample, for any model and any search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.text import How, normalised
from limen.core.types import (
    EnsembleOutputs,
    Outputs,
    Transcripts,
    Values,
    answers_of,
    predictions,
    refused_by,
    select,
)
from limen.models.base.model import Model


@dataclass(frozen=True)
class Goal:
    """Move the answers away from `reference`, or (targeted) onto it.

    With several models at once (`EnsembleOutputs`) losses are added, and the goal is reached when all of them
    reach it.
    """

    reference: Any
    """(B,) classes or B transcripts, unless a subclass states otherwise."""
    targeted: bool
    normalise: How = "words"
    """How texts are compared."""
    first_weight: float = 0.0
    """Extra weight of the first token of an autoregressive decoder."""
    at_least: float = 0.0
    """Share of wrong words that counts as "away from"; 0: any difference."""

    keeps_padding: ClassVar[bool] = False
    """True if the goal holds values per frame of the padded batch, so that its padding must not be cut."""

    @property
    def target(self) -> Tensor | list[str] | None:
        """The wanted answer, if it is a class, a text or a distribution; None without one."""
        return self.reference if self.targeted else None

    def view(self, model: Model) -> Model:
        """The model that a search evaluates: this one, or one whose outputs also hold what the loss needs."""
        return model

    def extra_columns(self, model: Model, x_adv: Tensor) -> dict[str, list[Any]]:
        """Further columns of the rows of the stored samples: name -> one value per sample. `model` is that of
        `view`."""
        return {}

    def loss(self, outputs: Outputs) -> Tensor:
        """(B,) what the attacker maximises: the loss of the reference, or minus it if the reference is the
        target."""
        value = _across(self._nll, outputs, torch.sum)
        return -value if self.targeted else value

    def reached(self, outputs: Outputs) -> Tensor:
        """(B,) bool, evaluated at every step of a search, so nothing is decoded; `judged` may not confirm it
        for samples that `needs_decoding` marks."""
        return _across(self._reached, outputs, torch.all)

    def needs_decoding(self, outputs: Outputs) -> Tensor | None:
        """(B,) bool: samples for which only decoding shows whether the goal is reached; None if there are
        none. A beam search may give another text than greedy decoding. A transcript that differs from the
        reference in some letters may hold the same words with other punctuation and capitals, or too few
        wrong ones."""
        if not isinstance(self.reference, list):
            return None
        if not all(isinstance(one, Tensor) or one.exact for one in members(outputs)):
            return torch.ones(len(self.reference), dtype=torch.bool)
        if self.targeted:
            return None
        needs_decoding = [self.at_least > 0 or normalised(r, self.normalise) != r for r in self.reference]
        return torch.tensor(needs_decoding) if any(needs_decoding) else None

    def judged(self, outputs: Outputs) -> Tensor:
        """(B,) bool, computed once for the stored samples: texts are decoded and compared. A sample that a
        detector refuses has not reached the goal."""
        reached, refused = _across(self._judged, outputs, torch.all), refused_by(outputs)
        return reached if refused is None else reached & ~refused.to(reached.device)

    def score(self, outputs: Outputs) -> Tensor:
        """(B,) how near the answers are to the goal; higher is nearer. The loss for classifiers, error rates
        of the decoded texts for recognisers."""
        if isinstance(outputs, Tensor) or isinstance(self.reference, Tensor):
            return self.loss(outputs)
        errors = torch.tensor(
            [_rate(r.split(), t.split()) + 1e-3 * _rate(r, t) for r, t in self._compared(outputs)]
        )
        return -errors if self.targeted else errors

    def margin(self, outputs: Outputs) -> Tensor:
        """(B,) positive if the goal is reached: the best other logit minus the reference's, or the reverse.
        Classifiers only."""
        return _across(self._margin, outputs, torch.amin)

    def rows(self, index: Tensor) -> "Goal":
        """The goal of some samples: those rows of every field that holds one value per sample."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(
            self, **{k: select(v, index) for k, v in values.items() if isinstance(v, Tensor | list)}
        )

    def _nll(self, outputs: Tensor | Transcripts) -> Tensor:
        if isinstance(outputs, Tensor):
            return F.cross_entropy(outputs, self.reference, reduction="none")
        return outputs.nll(self.reference, self.first_weight)

    def _reached(self, outputs: Tensor | Transcripts) -> Tensor:
        if isinstance(outputs, Tensor):
            return self._judged(outputs)
        same = outputs.would_transcribe(self.reference)
        return same if self.targeted else ~same

    def _judged(self, outputs: Tensor | Transcripts) -> Tensor:
        if isinstance(outputs, Tensor):
            answers = outputs.argmax(1)
            return answers == self.reference if self.targeted else answers != self.reference
        pairs = self._compared(outputs)
        if self.targeted:
            return torch.tensor([reference == text for reference, text in pairs])
        return torch.tensor([r != t and _rate(r.split(), t.split()) >= self.at_least for r, t in pairs])

    def _compared(self, outputs: Outputs) -> list[tuple[str, str]]:
        """Reference and answer of each sample, normalised."""
        texts = predictions(outputs)
        return [
            (normalised(r, self.normalise), normalised(str(t), self.normalise))
            for r, t in zip(self.reference, texts, strict=True)
        ]

    def _margin(self, outputs: Tensor | Transcripts) -> Tensor:
        assert isinstance(outputs, Tensor)
        mine = outputs.gather(1, self.reference[:, None]).squeeze(1)
        others = outputs.scatter(1, self.reference[:, None], -torch.inf).amax(1)
        return mine - others if self.targeted else others - mine


@dataclass(frozen=True)
class GoalContext:
    """What a goal is made from: the true answers of the clean samples and the model's outputs for them."""

    y: Tensor | list[str]
    clean: Outputs
    generators: Sequence[torch.Generator]
    """One stream per sample, for random targets."""
    ids: Sequence[str] = ()
    """Names of the samples, for targets read from a table."""
    x: Tensor | None = None
    model: Model | None = None
    """The model that the search evaluates; with `x`, the clean samples, for goals about its features."""

    @property
    def own(self) -> Outputs:
        """The clean outputs, those of the first of several models."""
        return members(self.clean)[0]


def members(outputs: Outputs) -> Sequence[Tensor | Transcripts]:
    """The outputs of each attacked model."""
    answers = answers_of(outputs)
    single: list[Tensor | Transcripts] = []
    for one in answers.members if isinstance(answers, EnsembleOutputs) else [answers]:
        if isinstance(one, Values):
            raise UserError(
                f"Goals are about classes and transcripts, but this model gives a {one.output}. Attack a "
                "classifier or a recogniser."
            )
        single.append(one)
    return single


def _across(
    measure: Callable[[Tensor | Transcripts], Tensor], outputs: Outputs, how: Callable[..., Tensor]
) -> Tensor:
    """(B,) the measure of each model, combined. A single one is returned unchanged, because every step of a
    search calls this."""
    values = [measure(one) for one in members(outputs)]
    return values[0] if len(values) == 1 else how(torch.stack(values), dim=0)


def truths(context: GoalContext, who: str) -> list[str]:
    """The true transcripts, for goals about texts."""
    if isinstance(context.own, Tensor) or isinstance(context.y, Tensor):
        raise UserError(
            f'The goal {who} needs a recogniser; this model gives classes. Use the goal "target_class".'
        )
    return context.y


def _rate(reference: Sequence[str], text: Sequence[str]) -> float:
    return edits(reference, text).errors / max(len(reference), 1)
