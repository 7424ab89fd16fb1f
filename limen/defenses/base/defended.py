"""What defences share: a model behind a transform of its input, and how an honest attacker differentiates
it."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Kind, Outputs
from limen.models.base.model import Model


class Defended(Model):
    """The inner model, seen through `transform`. Everything Limen knows of the model it also knows of the
    defended one."""

    def __init__(self, model: Model):
        super().__init__()
        self.inner = model
        self.copy_facts(model)
        self.training = model.training

    @property
    def for_attack(self) -> Model:
        inner = self.inner.for_attack
        if inner is self.inner:
            return self
        seen = copy.copy(self)
        seen._modules = {**self._modules, "inner": inner}
        return seen

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """x -> what the inner model sees, of the same shape and range; padding stays zero."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        return self.inner(self.transform(x, lengths), lengths, generators)


def straight_through(x: Tensor, y: Tensor) -> Tensor:
    """The value of y with the gradient of x: the backward pass takes the transform for the identity (BPDA,
    Athalye et al. 2018, https://arxiv.org/abs/1802.00420)."""
    return y.detach() + (x - x.detach())


def streams_of(
    x: Tensor, generators: Sequence[torch.Generator] | None, name: str
) -> Sequence[torch.Generator]:
    """The streams that a random defence draws from. Without any every sample gets the same draws: an answer
    must not depend on the place in the batch."""
    return generators or [seeds.generator(0, name) for _ in range(len(x))]


def at_snr(noise: Tensor, y: Tensor, snr_db: Tensor) -> Tensor:
    """The noise (B, T), zero on padding, so loud that y (B, T) stands snr_db (B,) above it. Its loudness is
    no way to change an answer, so no gradient goes through it."""
    wanted = y.detach().norm(dim=1) * 10 ** (-snr_db / 20)
    return noise * (wanted / noise.norm(dim=1).clamp_min(1e-12))[:, None]


def check_kind(model: Model, kind: Kind, name: str, instead: str) -> None:
    if model.kind != kind:
        raise UserError(
            f"The defense {name} is for models that take {kind}s, but this one takes {model.kind}s. Use one "
            f"of: {instead}."
        )


def rate_of(model: Model, name: str) -> int:
    """The sample rate of the clips, which the defence must know."""
    if model.rate_hz is None:
        raise UserError(
            f"The defense {name} must know the sample rate of the clips, but the model does not say it. "
            "Give the model its rate_hz."
        )
    return model.rate_hz
