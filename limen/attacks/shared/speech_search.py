"""Shared by cw and imperceptible: steps that do not depend on rounding errors, the best point so far, and
clips rounded as in their files."""

from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine import storage
from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import expand, length

DAMPING = 0.1


class Steps:
    """Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980) or the gradient itself, normalised: steps have
    a magnitude of about 1 for any scale of the loss.

    Departs from Adam: the constant added to the root of the second moment is not 1e-8 but a tenth of its root
    mean square over the sample. Adam moves a coordinate whose gradient is a rounding error as far as any
    other; the sign of that error depends on the size of the batch, and the result of a clip must not.
    """

    def __init__(self, optimiser: str, problem: Problem):
        self.adam, self.mask, self.made = optimiser == "adam", problem.mask, 0
        self.first, self.second = torch.zeros_like(problem.x), torch.zeros_like(problem.x)

    def down(self, slope: Tensor) -> Tensor:
        """(B, ...) the descent step for a gradient."""
        if not self.adam:
            return -slope / self._scale(slope)
        self.made += 1
        self.first.lerp_(slope, 0.1)
        self.second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        root = self.second.sqrt()
        # both moments begin at zero; the bias of the second is the same factor in the root and in its scale
        bias = (1 - 0.9**self.made) / (1 - 0.999**self.made) ** 0.5
        return torch.div(self.first, root.add_(DAMPING * self._scale(root)), out=root).mul_(-1 / bias)

    def _scale(self, values: Tensor) -> Tensor:
        """(B, 1, ...) root mean square over each sample, its padding left out; never 0. In double precision:
        small squares would vanish."""
        count = values[0].numel() if self.mask is None else self.mask.sum(1).clamp_min(1)
        return expand(
            (length(values.double()) / count**0.5).to(values.dtype).clamp_min(torch.finfo(values.dtype).tiny),
            values,
        )

    def rows(self, keep: Tensor) -> None:
        """Continues with some of the samples."""
        self.first, self.second, self.mask = (
            self.first[keep],
            self.second[keep],
            None if self.mask is None else self.mask[keep],
        )


@dataclass
class Best:
    """The best point so far of every sample."""

    x: Tensor
    """(B, ...) before rounding, so that a search that starts from it does not start from rounding errors."""
    size: Tensor
    """(B,) the minimised size of the point that reaches the goal; infinite if none has."""
    loss: Tensor
    """(B,) of the goal."""

    @staticmethod
    def of(x: Tensor) -> "Best":
        return Best(x.clone(), x.new_full((len(x),), torch.inf), x.new_full((len(x),), -torch.inf))


def stored(problem: Problem, x_adv: Tensor) -> Tensor:
    """Clips as 16-bit audio inside the budget, pictures unchanged."""
    return (
        storage.stored(x_adv, problem.x, "int16", lambda _: problem.budget)
        if problem.model.kind == "clip"
        else x_adv
    )
