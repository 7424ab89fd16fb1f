"""The second seam: what the attacker wants. A goal gives a loss and a success test per sample, whatever the
model and the search."""

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
    answers_of,
    predictions,
    refused_by,
    select,
)
from limen.models.base.model import Model


@dataclass(frozen=True)
class Goal:
    """Move the answers away from `reference`, or (targeted) onto it.

    Of several models at once (`EnsembleOutputs`) losses add up, and the goal is reached when all of them are
    where it wants them.
    """

    reference: Any
    """(B,) classes or B transcripts; what it is in other goals, they say."""
    targeted: bool
    normalise: How = "words"
    """How texts are compared."""
    first_weight: float = 0.0
    """Extra weight of the first token of a decoder that writes token after token."""
    at_least: float = 0.0
    """Share of wrong words that counts as "away from"; 0: any difference."""

    framed: ClassVar[bool] = False
    """True if the goal holds values per frame of the batch: its padding must stay as it is."""

    @property
    def target(self) -> Tensor | list[str] | None:
        """What the model should say, if that is a class, a text or a distribution."""
        return self.reference if self.targeted else None

    def view(self, model: Model) -> Model:
        """What a search asks: the model, or one whose answers also hold what the loss looks at."""
        return model

    def notes(self, model: Model, x_adv: Tensor) -> dict[str, list[Any]]:
        """What rows say of the stored samples beside their success: column -> one value per sample. `model`
        is that of `view`."""
        return {}

    def loss(self, outputs: Outputs) -> Tensor:
        """(B,) what the attacker raises: the loss of the reference, or minus it when the reference is the
        target."""
        value = _across(self._nll, outputs, torch.sum)
        return -value if self.targeted else value

    def reached(self, outputs: Outputs) -> Tensor:
        """(B,) bool, asked at every step of a search, so nothing is decoded; where `needs_decoding` says so,
        `judged` may not confirm it."""
        return _across(self._reached, outputs, torch.all)

    def needs_decoding(self, outputs: Outputs) -> Tensor | None:
        """(B,) bool: where only decoding tells whether a success is one; None: nowhere. A beam search may
        write another text than greedy decoding. A recogniser that does not write the reference letter for
        letter may write the same words with other punctuation and capitals, or too few wrong ones."""
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
        """(B,) how far towards the goal an answer is, in what it says: higher is better. A classifier's is
        its loss."""
        if isinstance(outputs, Tensor) or isinstance(self.reference, Tensor):
            return self.loss(outputs)
        errors = torch.tensor(
            [_rate(r.split(), t.split()) + 1e-3 * _rate(r, t) for r, t in self._compared(outputs)]
        )
        return -errors if self.targeted else errors

    def margin(self, outputs: Outputs) -> Tensor:
        """(B,) positive where the goal is reached: best wrong logit minus the reference's, or the reverse.
        Classifiers only."""
        return _across(self._margin, outputs, torch.amin)

    def rows(self, index: Tensor) -> "Goal":
        """Of every field that holds one value per sample, the rows of some samples."""
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
    """What a goal is made from: the clean samples' truth and the model's clean answers."""

    y: Tensor | list[str]
    clean: Outputs
    generators: Sequence[torch.Generator]
    """One stream per sample, for random targets."""
    ids: Sequence[str] = ()
    """Names of the samples, for targets that stand in a table."""
    x: Tensor | None = None
    model: Model | None = None
    """The clean samples and the model the search will ask, for goals about what happens inside it."""

    @property
    def own(self) -> Outputs:
        """The clean answers; of several models, the first one's."""
        return members(self.clean)[0]


def members(outputs: Outputs) -> Sequence[Tensor | Transcripts]:
    answers = answers_of(outputs)
    return answers.members if isinstance(answers, EnsembleOutputs) else [answers]


def _across(
    measure: Callable[[Tensor | Transcripts], Tensor], outputs: Outputs, how: Callable[..., Tensor]
) -> Tensor:
    """(B,) of what several models say; of a single one without ado, because every step of a search asks."""
    values = [measure(one) for one in members(outputs)]
    return values[0] if len(values) == 1 else how(torch.stack(values), dim=0)


def truths(asked: GoalContext, who: str) -> list[str]:
    """The true transcripts, for goals about texts."""
    if isinstance(asked.own, Tensor) or isinstance(asked.y, Tensor):
        raise UserError(
            f'The goal {who} needs a recogniser, but this model gives classes. Use the goal "target_class".'
        )
    return asked.y


def _rate(reference: Sequence[str], text: Sequence[str]) -> float:
    return edits(reference, text).errors / max(len(reference), 1)
