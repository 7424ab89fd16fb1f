"""What an attack is asked: samples of a model, a goal and a budget. Attack = goal x budget x search; this is all the search sees.

Autograd is on in exactly one place, `Problem.gradient`. Rows can be taken out (`rows`), so finished samples leave the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from limen.budgets._balls import Ball
from limen.errors import UserError
from limen.goals._goal import Goal
from limen.models._model import Model
from limen.types import Outputs, select, valid


@dataclass
class Calls:
    """Per sample: how often the model was asked, and what its gradients looked like."""

    forward: Tensor
    backward: Tensor
    dead: Tensor
    """Gradients that were zero or not finite."""

    @staticmethod
    def none(n: int) -> "Calls":
        return Calls(*(torch.zeros(n, dtype=torch.long) for _ in range(3)))


@dataclass
class Problem:
    model: Model
    x: Tensor
    """(B, ...) clean samples."""
    goal: Goal
    budget: Ball | None
    """None: the attack seeks the smallest change it can."""
    generators: Sequence[torch.Generator]
    """One stream per sample."""
    low: Tensor | float
    high: Tensor | float
    """The range samples must keep."""
    y: Tensor | list[str] | None = None
    """The true answers (universal attacks of one class need them)."""
    lengths: Tensor | None = None
    calls: Calls = field(default_factory=lambda: Calls.none(0))
    index: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    """Position of each row in the problem first posed."""

    def __post_init__(self) -> None:
        if len(self.index) != len(self.x):
            self.index, self.calls = torch.arange(len(self.x)), Calls.none(len(self.x))
        self.mask = valid(self.x, self.lengths)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def ball(self) -> Ball:
        """The budget of an attack that cannot do without one."""
        if self.budget is None:
            raise UserError("This attack needs a budget, for example budget: {name: linf, eps: 0.03}. See `limen list budgets`.")
        return self.budget

    def rows(self, keep: Tensor) -> "Problem":
        """The problem of some samples; `keep` holds row numbers or a mask."""
        i = keep.nonzero().squeeze(1) if keep.dtype == torch.bool else keep
        return replace(self, x=self.x[i], goal=self.goal.rows(i), budget=None if self.budget is None else self.budget.rows(i),
                       generators=[self.generators[k] for k in i.tolist()],
                       y=None if self.y is None else select(self.y, i),
                       lengths=None if self.lengths is None else self.lengths[i], index=self.index[i.cpu()])  # fmt: skip

    def clip(self, x_adv: Tensor) -> Tensor:
        """Into the range of samples. Clean samples lie in it, so this never makes a change larger."""
        return torch.minimum(torch.maximum(x_adv, self.low), self.high) if isinstance(self.low, Tensor) else x_adv.clamp(self.low, self.high)

    def project(self, x_adv: Tensor) -> Tensor:
        """Into the budget, if there is one, and into the range."""
        if self.budget is None:
            return self.clip(x_adv)
        return self.clip(self.x + self.budget.project(x_adv - self.x))

    def start(self) -> Tensor:
        """A random allowed point; padding is left alone."""
        delta = self.ball.start(self.x, self.generators)
        return self.clip(self.x + (delta if self.mask is None else delta * self.mask))

    def outputs(self, x_adv: Tensor) -> Outputs:
        self.calls.forward[self.index] += 1
        return self.model(x_adv, self.lengths, self.generators)

    @torch.no_grad()
    def reached(self, x_adv: Tensor) -> Tensor:
        """(B,) bool."""
        return self.goal.reached(self.outputs(x_adv))

    @torch.no_grad()
    def look(self, x_adv: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) loss and (B,) reached, without gradients."""
        outputs = self.outputs(x_adv)
        return self.goal.loss(outputs), self.goal.reached(outputs)

    def gradient(self, x_adv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d loss_i / d x_i for every row, the losses, and which rows have already reached the goal. One forward pass serves all three.

        Of a model that draws at random: the mean over its draws (EOT, Athalye et al. 2018), reached if most draws say so.
        """
        draws = self.model.draws if self.model.random else 1
        for draw in range(draws):
            with torch.enable_grad():
                leaf = x_adv.detach().requires_grad_()
                outputs = self.outputs(leaf)
                loss = self.goal.loss(outputs)
                (gradient,) = torch.autograd.grad(loss.sum(), leaf)  # sum, not mean: each row its own gradient whatever the batch
            one = self._cleaned(gradient), loss.detach(), self.goal.reached(_detached(outputs)).to(loss.dtype)
            total = one if draw == 0 else tuple(a + b for a, b in zip(total, one, strict=True))
        gradient, loss, votes = total
        return (gradient, loss, votes > 0.5) if draws == 1 else (gradient / draws, loss / draws, votes > draws / 2)

    def input_gradients(self, x_adv: Tensor, pick: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K) and the gradients (B, k, ...) of the logits whose numbers `pick` (B, k) holds. Classifiers only."""
        with torch.enable_grad():
            x_adv = x_adv.detach().requires_grad_()
            logits = self.outputs(x_adv)
            assert isinstance(logits, Tensor)
            chosen = logits.gather(1, pick)
            columns = [torch.autograd.grad(chosen[:, j].sum(), x_adv, retain_graph=j + 1 < pick.shape[1])[0] for j in range(pick.shape[1])]
        return logits.detach(), torch.stack([self._cleaned(c) for c in columns], 1)

    def _cleaned(self, gradient: Tensor) -> Tensor:
        """Counts dead gradients, makes non-finite entries zero and leaves padding alone."""
        self.calls.backward[self.index] += 1
        largest = gradient.flatten(1).abs().amax(1)
        self.calls.dead[self.index] += (~torch.isfinite(largest) | (largest == 0)).long().cpu()
        if not bool(torch.isfinite(largest).all()):
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        return gradient if self.mask is None else gradient * self.mask


def _detached(outputs: Outputs) -> Outputs:
    return outputs.detach() if isinstance(outputs, Tensor) else outputs
