r"""TRADES: cross-entropy on the clean sample, plus the divergence of the outputs for the worst sample nearby.

Zhang et al. 2019, https://arxiv.org/abs/1901.08573, equation 5, with L-infinity balls:
    CE(f(x), y) + beta max over |d|_inf <= eps of KL( f(x) || f(x + d) )
As in the authors' code, the inner search starts at x + 0.001 N(0, 1), is computed in evaluation mode, and
gradients pass through both arguments of the divergence.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core import seeds
from limen.core.types import BOUNDS, Batch, Output, valid
from limen.models.base.model import Model, evaluating
from limen.objectives.base.objective import ObjectiveOptions


class Trades(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    beta: float = Field(default=6.0, ge=0)
    """Weight of the divergence: higher is more robust and less accurate."""
    eps: float = Field(default=0.031, gt=0)
    """Radius of the ball, in input units (0.031 is 8/255 for pictures in [0, 1])."""
    steps: int = Field(default=10, ge=1)
    """Gradient steps of the inner search."""
    step_size: float = Field(default=0.25, gt=0)
    """Length of a step, as a share of eps."""
    start_noise: float = Field(default=0.001, ge=0)
    """Standard deviation of the initial noise of the inner search, in input units."""


def trades(model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Trades) -> Tensor:
    assert isinstance(batch.y, Tensor)
    x_adv = farthest(model, batch, streams, options)
    logits = model(batch.x, batch.lengths, streams)
    nearby = model(x_adv, batch.lengths, streams)
    return F.cross_entropy(logits, batch.y, reduction="none") + options.beta * divergence(logits, nearby)


def divergence(logits: Tensor, others: Tensor) -> Tensor:
    """(B,) KL(softmax(logits) || softmax(others))."""
    log_p, log_q = logits.log_softmax(1), others.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


def farthest(model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Trades) -> Tensor:
    """The sample in the ball, within the natural range, whose outputs diverge most from the clean ones."""
    x, (low, high) = batch.x, BOUNDS[batch.kind]
    mask = valid(x, batch.lengths)
    noise = options.start_noise * seeds.normal_like(x, streams, batch.lengths)
    delta = noise.clamp(-options.eps, options.eps)
    with evaluating(model):
        with torch.no_grad():
            clean = model(x, batch.lengths, streams)
        for _ in range(options.steps):
            leaf = (x + delta).clamp(low, high).detach().requires_grad_()
            with torch.enable_grad():
                values = divergence(clean, model(leaf, batch.lengths, streams))
                (gradient,) = torch.autograd.grad(values.sum(), leaf)
            step = options.step_size * options.eps * gradient.sign()
            delta = (leaf.detach() - x + step).clamp(-options.eps, options.eps)
            delta = delta if mask is None else delta * mask
    return (x + delta).clamp(low, high).detach()
