r"""Apply a transform of your own before the model, with a substitute gradient for attackers. Athalye et al.
2018, https://arxiv.org/abs/1802.00420:

    forward pass  f(t(x)),    backward pass  grad f at t(x), through a substitute g for t:
        d g(x) / dx  in place of  d t(x) / dx

Without a substitute, t is differentiated as the identity (straight-through), which suits transforms whose
output is close to their input. Rounding, codecs and argmax have no useful gradient: an attack that
differentiates them fails, and the model only appears robust. Every attack follows the substitute gradient.
Limen's own defences that cannot be differentiated have one already and need no `bpda`. The named function is
executed: name only modules that you trust.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.core.components import import_function
from limen.core.types import valid
from limen.defenses.base.defended import StraightThrough
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model

PATH = r"^[\w.]+:\w+$"


class Bpda(DefenseOptions):
    example: ClassVar[dict[str, Any]] = {"transform": "torch:round"}

    transform: str = Field(pattern=PATH)
    """A function from samples (B, C, H, W) or (B, T) to samples of the same shape and range, as
    "package.module:function". The working folder is searched too."""
    gradient: str | None = Field(default=None, pattern=PATH)
    """A function of the same form whose gradient is used instead, as "package.module:function"; null: the
    identity."""


class Replaced(StraightThrough):
    def __init__(self, model: Model, options: Bpda):
        super().__init__(model, options)
        self.value = import_function(options.transform, "defense bpda")
        self.substitute = import_function(options.gradient, "defense bpda") if options.gradient else None

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        return _applied(self.value, x, lengths)

    def stand_in(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        return x if self.substitute is None else _applied(self.substitute, x, lengths)


def _applied(function: Callable[[Tensor], Tensor], x: Tensor, lengths: Tensor | None) -> Tensor:
    """The function applied to the batch; to clips of different lengths one by one, without their padding."""
    if valid(x, lengths) is None:
        return function(x)
    assert lengths is not None
    clips = [function(clip[None, :n])[0] for clip, n in zip(x, lengths.tolist(), strict=True)]
    return torch.stack([torch.nn.functional.pad(clip, (0, x.shape[1] - len(clip))) for clip in clips])


def bpda(model: Model, options: Bpda) -> Model:
    return Replaced(model, options)
