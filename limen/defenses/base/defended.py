"""A model behind one defence, and the helpers that defences share."""

import copy
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Outputs
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class Defended(Model):
    """The model `inner` behind one defence. Everything declared by the model is declared by this one too.

    Most defences are one of three: a `Transform` of the input, a `Voting` over several answers, or a
    `Detector` that may refuse a sample. Others derive from this class and write `forward` themselves.
    """

    own: nn.Module
    """The network of a defence with weights of its own (`WeightedDefenseOptions`). Weight files use the names
    of its parameters."""

    def __init__(self, model: Model, options: DefenseOptions):
        super().__init__()
        self.inner = model
        self.copy_facts(model)
        self.random = model.random or options.random
        self.draws = max(getattr(options, "draws", 1), model.draws)
        self.training = model.training

    @property
    def for_attack(self) -> Model:
        inner = self.inner.for_attack
        if inner is self.inner:
            return self
        fast = copy.copy(self)
        fast._modules = {**self._modules, "inner": inner}
        return fast

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        raise NotImplementedError


class Transform(Defended):
    """A change of the sample before the model evaluates it.

    An attacker differentiates the transform itself, unless `stand_in` gives something else: rounding and
    codecs have no useful gradient (BPDA, Athalye et al. 2018, https://arxiv.org/abs/1802.00420).
    """

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        """x -> what the inner model evaluates, of the same shape and range; padding stays zero. `generators`,
        one per sample, are for transforms that draw at random: see `streams_of`."""
        raise NotImplementedError

    def stand_in(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        """What an attacker differentiates in place of the transform, of the same shape; None: the transform
        itself."""
        return None

    def transformed(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        """The transform's value with the gradient that an attacker follows."""
        stand_in = self.stand_in(x, lengths)
        if stand_in is None:
            return self.transform(x, lengths, generators)
        with torch.no_grad():
            y = self.transform(x, lengths, generators)
        return straight_through(stand_in, y)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        return self.inner(self.transformed(x, lengths, generators), lengths, generators)


class StraightThrough(Transform):
    """A transform that an attacker differentiates as if it were the identity."""

    def stand_in(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        return x


def straight_through(x: Tensor, y: Tensor) -> Tensor:
    """The value of y with the gradient of x."""
    return y.detach() + (x - x.detach())


def streams_of(
    x: Tensor, generators: Sequence[torch.Generator] | None, name: str
) -> Sequence[torch.Generator]:
    """The random streams of the samples. Without any, every sample gets the same draws: an answer must not
    depend on the place in the batch."""
    return generators or seeds.Streams(cache(lambda i: seeds.generator(0, name)), range(len(x)))


def at_snr(noise: Tensor, y: Tensor, snr_db: Tensor) -> Tensor:
    """The noise (B, T), zero on padding, scaled to snr_db (B,) decibels below y (B, T). The scale has no
    gradient."""
    level = y.detach().norm(dim=1) * 10 ** (-snr_db / 20)
    return noise * (level / noise.norm(dim=1).clamp_min(1e-12))[:, None]


def rate_of(model: Model, name: str) -> int:
    """The sample rate of the clips; a UserError if the model does not declare it."""
    if model.rate_hz is None:
        raise UserError(
            f"The defense {name} needs the sample rate of the clips, but the model does not declare it. Give "
            "the model its rate_hz."
        )
    return model.rate_hz
