"""Several models evaluated together, for attacks that must fool all of them, optionally with dropout on.

Section 6.3.1 of Olivier 2023: the losses of several surrogates are added; a perturbation that is robust to
their dropout overfits them less.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from limen.core.errors import UserError
from limen.core.types import EnsembleOutputs
from limen.models.base.model import Model


class Ensemble(Model):
    """A model whose outputs are those of all members, in order."""

    def __init__(self, members: Sequence[Model], dropout: bool = False):
        super().__init__()
        first = members[0]
        for other in members[1:]:
            mine, theirs = (
                (first.kind, first.output, first.rate_hz, first.shape),
                (other.kind, other.output, other.rate_hz, other.shape),
            )
            if mine != theirs:
                raise UserError(
                    "Models that are attacked together must have the same kind, output, sample rate and "
                    f"shape, got {mine} and {theirs}."
                )
        self.members, self.dropout = nn.ModuleList(members), dropout
        self.copy_facts(first)
        self.random = dropout or any(m.random for m in members)
        self.draws = max(m.draws for m in members)

    @property
    def for_attack(self) -> "Ensemble":
        members: Any = self.members
        faster = [m.for_attack for m in members]
        unchanged = all(a is b for a, b in zip(faster, members, strict=True))
        return self if unchanged else Ensemble(faster, self.dropout)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> EnsembleOutputs:
        answers = []
        for member in self.members:
            with dropping(member, generators if self.dropout else None):
                answers.append(member(x, lengths, generators))
        return EnsembleOutputs(answers)


@contextmanager
def dropping(model: nn.Module, generators: Sequence[torch.Generator] | None) -> Iterator[None]:
    """Context in which dropout layers are on and each sample draws from its own stream; with None they are
    off. Dropout inside recurrent layers stays off."""
    if generators is None:
        yield
        return
    # one seed per sample and pass: the number of values that a layer draws depends on the padding, so layers
    # must not draw from the stream itself
    drawn = [int(torch.randint(2**62, (1,), generator=g)) for g in generators]
    layers = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    hooks = [layer.register_forward_hook(_drop(drawn, number)) for number, layer in enumerate(layers)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _drop(drawn: list[int], number: int) -> Callable[..., Tensor]:
    def hook(layer: nn.Dropout, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x, frames = inputs[0], inputs[1] if len(inputs) > 1 else None
        streams = [torch.Generator().manual_seed(d + number) for d in drawn]
        if frames is not None:  # packed clips
            kept = torch.cat(
                [torch.rand(n, *x.shape[1:], generator=g) for n, g in zip(frames, streams, strict=True)]
            )
        elif len(x) == len(drawn):
            kept = torch.stack([torch.rand(x.shape[1:], generator=g) for g in streams])
        else:  # rows are not samples: no stream to draw from
            return output
        return x * (kept.to(x) >= layer.p) / (1 - layer.p)

    return hook
