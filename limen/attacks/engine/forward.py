"""How a network is asked about pictures: with the channels of a pixel side by side in memory, and one pass
where two would say the same.

Convolutions on a CPU read and write the channels of a pixel together, and rearrange pictures that lie channel
after channel at every layer: a gradient of the small networks of docs/benchmarks.md takes 0.75 to 0.85 of the
time when x comes in their order. Values are the same, answers differ by rounding. The clean pass, the search
and the judge all ask in this way.
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
"""Models that have been asked -> whether they are given pictures with the channels side by side."""
WORTHWHILE = 0.75
"""Share of the samples that must be left for the clean pass to serve. A backward pass costs 1.4 forward
passes or more: over all samples 1.4, after a fresh forward pass over a share s of them 2.4 s, and the fewer
graphs are in memory the faster it is."""

MOST_PAUSE = 15
"""Gradients that a search lets pass at most before it asks again whether a success is one: of 40 at most six
ask in vain."""


def ask(
    model: Model,
    x: Tensor,
    lengths: Tensor | None = None,
    generators: Sequence[torch.Generator] | None = None,
) -> Outputs:
    """model(x, lengths, generators), the picture laid out as its convolutions like it."""
    if x.dim() != 4 or x.dtype != torch.float32 or x.device.type != "cpu" or not _TAKES.get(model, True):
        return model(x, lengths, generators)  # in double precision torch has no such convolutions
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
    """The same (B, C, H, W), laid out as (B, H, W, C)."""
    if x.shape[1] > 1:
        return x.contiguous(memory_format=torch.channels_last)
    # one channel lies either way, and convolutions choose by its stride, which is to be 1
    return x.contiguous().squeeze(1).unsqueeze(3).permute(0, 3, 1, 2)


@dataclass
class CleanPass:
    """The pass over the clean samples that every attack begins with, kept with its graph for a search whose
    first gradient is there."""

    leaf: Tensor | None
    outputs: Tensor | None

    @staticmethod
    def of(
        model: Model, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator]
    ) -> "CleanPass":
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            outputs = ask(model, leaf, lengths, generators)
        assert isinstance(outputs, Tensor)
        return CleanPass(leaf, outputs)

    def take(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor] | None:
        """The leaf and its outputs, if they are of these samples: x its rows `index`. Whatever is asked
        first, the graph is let go then: it holds as much memory as all else together. None, too, where few
        rows are left: a backward pass over all would cost more."""
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
    """The model as it is judged, for a search that asks a faster stand-in: a success counts once it is one
    here too."""

    model: Model
    stored: Callable[[Tensor, Tensor], Tensor]
    """Points of the search, and which rows of the batch they are of -> samples as they are stored and
    judged."""

    def confirms(
        self,
        goal: Goal,
        x_adv: Tensor,
        index: Tensor,
        lengths: Tensor | None,
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """(B,) bool: the samples of rows `index` reach the goal."""
        return goal.judged(ask(self.model, self.stored(x_adv, index), lengths, generators))


@dataclass
class Doubts:
    """Per sample: how long a search waits before it asks again whether a success is one, after it was not.

    A stand-in that is too optimistic, or a text that is the same but for a comma, claims success step after
    step, and each answer costs a pass over the full path or a text decoded. So the first gradients ask at
    once, later ones after a pause that doubles up to `MOST_PAUSE`.
    """

    left: Tensor
    """Gradients until it is asked again."""
    pause: Tensor
    """Gradients of the pause after the next rejection."""
    rejected: Tensor
    """Whether a success that was claimed has ever been none."""

    @staticmethod
    def none(n: int) -> "Doubts":
        return Doubts(
            torch.zeros(n, dtype=torch.long),
            torch.zeros(n, dtype=torch.long),
            torch.zeros(n, dtype=torch.bool),
        )

    def due(self, index: Tensor) -> Tensor:
        """(B,) bool: which of these samples may ask at this gradient."""
        left = self.left[index]
        self.left[index] = (left - 1).clamp_min(0)
        return left == 0

    def settled(self, index: Tensor, confirmed: Tensor, pauses: bool) -> None:
        """What these samples were told; one that pauses will wait before it asks again."""
        self.rejected[index] |= ~confirmed
        if not pauses:
            return
        pause = self.pause[index]
        self.left[index] = torch.where(confirmed, 0, pause)
        self.pause[index] = torch.where(confirmed, 0, (2 * pause + 1).clamp_max(MOST_PAUSE))
