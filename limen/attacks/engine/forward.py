"""Forward passes of an attack: pictures in the memory format that convolutions prefer, and no pass computed
twice.

Convolutions on a CPU work in the channels-last memory format and convert other inputs at every layer: a
gradient of the small networks of docs/benchmarks.md takes 0.75 to 0.85 of the time if x is given in that
format. The values are equal up to rounding. The clean pass, the search and the final evaluation all use
`forward_pass`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from limen.core.types import Outputs, select
from limen.goals.base.goal import Goal
from limen.models.base.model import Model

_TAKES: WeakKeyDictionary[Model, bool] = WeakKeyDictionary()
"""Models that have been evaluated -> whether they take pictures in the channels-last format."""
WORTHWHILE = 0.75
"""Smallest share of the samples for which the graph of the clean pass is reused. A backward pass costs 1.4
forward passes or more: over all samples 1.4, and 2.4 s with a fresh forward pass over a share s of them;
fewer graphs in memory are faster, too."""

MOST_PAUSE = 15
"""Largest number of gradients between two confirmations of one sample: of 40 gradients at most six are
confirmed in vain."""


def forward_pass(
    model: Model,
    x: Tensor,
    lengths: Tensor | None = None,
    generators: Sequence[torch.Generator] | None = None,
) -> Outputs:
    """model(x, lengths, generators), with pictures in the memory format of its convolutions."""
    if x.dim() != 4 or x.dtype != torch.float32 or x.device.type != "cpu" or not _TAKES.get(model, True):
        return model(x, lengths, generators)  # torch has no channels-last convolutions in double precision
    if model in _TAKES:
        return model(_channels_last(x), lengths, generators)
    _TAKES[model] = not model.random and any(isinstance(m, nn.Conv2d) for m in model.modules())
    if not _TAKES[model]:
        return model(x, lengths, generators)
    try:
        return model(_channels_last(x), lengths, generators)
    except RuntimeError:  # a network may insist on the usual order, for example by x.view(len(x), -1)
        _TAKES[model] = False
        return model(x, lengths, generators)


def _channels_last(x: Tensor) -> Tensor:
    """The same (B, C, H, W), stored as (B, H, W, C)."""
    if x.shape[1] > 1:
        return x.contiguous(memory_format=torch.channels_last)
    # one channel has the same order in both formats, and convolutions choose by its stride, which must be 1
    return x.contiguous().squeeze(1).unsqueeze(3).permute(0, 3, 1, 2)


@dataclass
class CleanPass:
    """The forward pass over the clean samples with which every attack begins, kept with its graph for a
    search whose first gradient is at the clean samples."""

    leaf: Tensor | None
    outputs: Tensor | None

    @staticmethod
    def of(
        model: Model, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator]
    ) -> "CleanPass":
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            outputs = forward_pass(model, leaf, lengths, generators)
        assert isinstance(outputs, Tensor)
        return CleanPass(leaf, outputs)

    def take(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor] | None:
        """The leaf and its outputs, if x is its rows `index`; else None. The first call frees the graph,
        which takes as much memory as everything else together. Also None if few rows are left: a backward
        pass over all would cost more."""
        leaf, outputs, self.leaf, self.outputs = self.leaf, self.outputs, None, None
        if (
            leaf is None
            or outputs is None
            or len(index) < WORTHWHILE * len(leaf)
            or x.shape[1:] != leaf.shape[1:]
        ):
            return None
        same = torch.equal(x, leaf if len(x) == len(leaf) else select(leaf, index))
        return (leaf, outputs) if same else None


@dataclass
class FullPath:
    """The model itself, for a search that uses a faster approximation of it: a success counts once the model
    itself confirms it."""

    model: Model
    stored: Callable[[Tensor, Tensor], Tensor]
    """(points of the search, their rows in the batch) -> samples in the form in which they are stored and
    evaluated."""

    def confirms(
        self,
        goal: Goal,
        x_adv: Tensor,
        index: Tensor,
        lengths: Tensor | None,
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """(B,) bool: the samples of rows `index` reach the goal."""
        return goal.judged(forward_pass(self.model, self.stored(x_adv, index), lengths, generators))


@dataclass
class Confirmations:
    """When claimed successes are confirmed, per sample.

    An approximation that is too optimistic, or a text that differs by a comma only, claims success at every
    step, and each confirmation costs a pass over the model itself or a decoded text. After a rejection a
    sample therefore pauses, for a number of gradients that doubles up to `MOST_PAUSE`.
    """

    left: Tensor
    """Gradients until the next confirmation."""
    pause: Tensor
    """Length of the pause after the next rejection."""
    rejected: Tensor
    """Whether a claimed success was ever rejected."""

    @staticmethod
    def none(n: int) -> "Confirmations":
        return Confirmations(
            torch.zeros(n, dtype=torch.long),
            torch.zeros(n, dtype=torch.long),
            torch.zeros(n, dtype=torch.bool),
        )

    def due(self, index: Tensor) -> Tensor:
        """(B,) bool: which of these samples may be confirmed at this gradient."""
        left = self.left[index]
        self.left[index] = (left - 1).clamp_min(0)
        return left == 0

    def record(self, index: Tensor, confirmed: Tensor, pauses: bool) -> None:
        """Records the results for these samples; with `pauses`, a rejected sample waits before the next
        confirmation."""
        self.rejected[index] |= ~confirmed
        if not pauses:
            return
        pause = self.pause[index]
        self.left[index] = torch.where(confirmed, 0, pause)
        self.pause[index] = torch.where(confirmed, 0, (2 * pause + 1).clamp_max(MOST_PAUSE))
