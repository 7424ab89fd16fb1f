r"""Any transform of yours before the model, and what an attacker differentiates in its place. Athalye et al.
2018, https://arxiv.org/abs/1802.00420:

    forward pass  f(t(x)),    backward pass  grad f at t(x), through a stand-in g for t:
        d t(x) / dx  is taken for  d g(x) / dx

Without a stand-in, t is taken for the identity (straight-through), which serves transforms whose output is
near their input. Rounding, codecs and argmax have no gradient of use: an attack that differentiates them is
blind, and the model looks robust. Every attack follows this one. The other defences that cannot be
differentiated (bit_depth, jpeg, mp3, quantisation) say so themselves and need no `bpda`. Your own code is
run: name only modules that you trust.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.core.components import import_function
from limen.core.options import Options
from limen.core.types import valid
from limen.defenses.base.defended import Defended, straight_through
from limen.models.base.model import Model

PLACE = r"^[\w.]+:\w+$"


class Bpda(Options):
    example: ClassVar[dict[str, Any]] = {"transform": "my_package.my_module:function"}

    transform: str = Field(pattern=PLACE)
    """A function from samples (B, C, H, W) or (B, T) to samples of the same shape and range, as
    "package.module:function". It is looked for in the working folder too."""
    gradient: str | None = Field(default=None, pattern=PLACE)
    """A function like it whose gradient is taken instead, as "package.module:function"; null: that of the
    identity."""


class Replaced(Defended):
    def __init__(self, model: Model, options: Bpda):
        super().__init__(model)
        self.value = import_function(options.transform, "defense bpda")
        self.stand_in = import_function(options.gradient, "defense bpda") if options.gradient else None

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        with torch.no_grad():
            y = _applied(self.value, x, lengths)
        return straight_through(x if self.stand_in is None else _applied(self.stand_in, x, lengths), y)


def _applied(function: Callable[[Tensor], Tensor], x: Tensor, lengths: Tensor | None) -> Tensor:
    """A function that knows nothing of padding gets clips of different lengths one by one."""
    if valid(x, lengths) is None:
        return function(x)
    assert lengths is not None
    clips = [function(clip[None, :n])[0] for clip, n in zip(x, lengths.tolist(), strict=True)]
    return torch.stack([torch.nn.functional.pad(clip, (0, x.shape[1] - len(clip))) for clip in clips])


def bpda(model: Model, options: Bpda) -> Model:
    return Replaced(model, options)
