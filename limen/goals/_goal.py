"""The second seam: what the attacker wants. A goal gives a loss and a success test per sample, whatever the model and the search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.types import Outputs, different, predictions, select


@dataclass(frozen=True)
class Goal:
    """Move the answers away from `reference`, or (targeted) onto it."""

    reference: Tensor | list[str]
    """(B,) classes or B transcripts."""
    targeted: bool

    def loss(self, outputs: Outputs) -> Tensor:
        """(B,) what the attacker raises: the loss of the reference, or minus it when the reference is the target."""
        value = self._nll(outputs)
        return -value if self.targeted else value

    def reached(self, outputs: Outputs) -> Tensor:
        """(B,) bool."""
        device = outputs.device if isinstance(outputs, Tensor) else "cpu"
        moved = different(predictions(outputs), self.reference, device)
        return ~moved if self.targeted else moved

    def margin(self, logits: Tensor) -> Tensor:
        """(B,) positive where the goal is reached: best wrong logit minus the reference's, or the reverse. Classifiers only."""
        assert isinstance(self.reference, Tensor)
        mine = logits.gather(1, self.reference[:, None]).squeeze(1)
        others = logits.scatter(1, self.reference[:, None], -torch.inf).amax(1)
        return mine - others if self.targeted else others - mine

    def rows(self, index: Tensor) -> "Goal":
        return replace(self, reference=select(self.reference, index))

    def _nll(self, outputs: Outputs) -> Tensor:
        if isinstance(outputs, Tensor):
            assert isinstance(self.reference, Tensor)
            return F.cross_entropy(outputs, self.reference, reduction="none")
        assert not isinstance(self.reference, Tensor)
        return outputs.nll(self.reference)


@dataclass(frozen=True)
class Asked:
    """What a goal is made from: the clean samples' truth and the model's clean answers."""

    y: Tensor | list[str]
    clean: Outputs
    generators: Sequence[torch.Generator]
    """One stream per sample, for random targets."""
