"""What the attacker may change: balls around each clean sample, one radius per sample.

A ball gives an exact projection, the steepest step and a random start. Rows never look at each other. A projection never
creates change where there was none, so padding that is not perturbed stays untouched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from limen.seeds import normal_like, uniform_like
from limen.types import valid

B = TypeVar("B", bound="Ball")


def expand(values: Tensor, like: Tensor) -> Tensor:
    """(B,) -> (B, 1, ..., 1)."""
    return values.view(-1, *[1] * (like.dim() - 1))


@dataclass(frozen=True)
class Ball:
    """{delta : norm(delta) <= radius}, per sample."""

    radius: Tensor
    """(B,)."""
    sparse: ClassVar[bool] = False
    """True if the steepest step moves few coordinates; one that the range stops must then make way for the next steepest."""

    def norm(self, delta: Tensor) -> Tensor:
        """(B, ...) -> (B,)."""
        raise NotImplementedError

    def project(self, delta: Tensor) -> Tensor:
        """The nearest point of the ball, in the Euclidean sense, as a new tensor."""
        raise NotImplementedError

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """The change of norm `size` (B,) that raises a linear function with this gradient most, as a new tensor."""
        raise NotImplementedError

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        """A random point of the ball; padding (beyond `lengths`) stays 0."""
        raise NotImplementedError

    def fill(self, delta: Tensor) -> Tensor:
        """The change in the same direction whose norm is exactly the radius; no change stays none."""
        largest = delta.flatten(1).abs().amax(1)
        scaled = delta / expand(torch.where(largest > 0, largest, 1), delta)  # squares of small changes would vanish
        norm = self.norm(scaled)
        return scaled * expand(self.radius / torch.where(norm > 0, norm, 1), delta)

    def rows(self: B, index: Tensor) -> B:
        return replace(self, radius=self.radius[index])


class LinfBall(Ball):
    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().amax(1)

    def project(self, delta: Tensor) -> Tensor:
        radius = expand(self.radius, delta)
        return torch.minimum(delta, radius).maximum(-radius)  # three times faster than clamp between tensors

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        return gradient.sign().mul_(expand(size, gradient))

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        return _signed(like, generators, lengths) * expand(self.radius, like)


class L2Ball(Ball):
    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).norm(dim=1)

    def project(self, delta: Tensor) -> Tensor:
        scale = (self.radius / self.norm(delta).clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)
        return delta * expand(scale, delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        norm = self.norm(gradient)
        if not bool((norm > 1e-15).all()):  # squares of gradients below 1e-19 vanish in single precision: scale by the largest entry first
            largest = gradient.flatten(1).abs().amax(1)
            gradient = gradient / expand(torch.where(largest > 0, largest, 1), gradient)
            norm = self.norm(gradient)
        return gradient * expand(size / torch.where(norm > 0, norm, 1), gradient)

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        """Uniform in the ball: a normal direction, and the d-th root of a uniform number as its length."""
        direction = normal_like(like, generators, lengths)
        dimensions = like[0].numel() if lengths is None else lengths.to(like.device) * (like[0].numel() // like.shape[-1])
        length = uniform_like(like.flatten(1)[:, :1], generators).squeeze(1) ** (1 / dimensions)
        return self.fill(direction) * expand(length, like)


class L1Ball(Ball):
    sparse = True

    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().sum(1)

    def project(self, delta: Tensor) -> Tensor:
        r"""Soft threshold with the one theta for which the norm is the radius. Duchi et al. 2008, https://doi.org/10.1145/1390156.1390191:
        theta = (sum_{j<=rho} u_j - radius) / rho, u the sorted magnitudes, rho = max{j : u_j > (sum_{r<=j} u_r - radius) / j}."""
        flat = delta.flatten(1)
        u = flat.abs().sort(dim=1, descending=True).values
        ranks = torch.arange(1, u.shape[1] + 1, device=u.device, dtype=u.dtype)
        thetas = (u.cumsum(1) - self.radius[:, None]) / ranks
        rho = (u > thetas).sum(1, keepdim=True).clamp_min(1)
        theta = thetas.gather(1, rho - 1).clamp_min(0)
        return (flat.sign() * (flat.abs() - theta).clamp_min(0)).view_as(delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """All of the change on the one steepest coordinate."""
        flat = gradient.flatten(1)
        where = flat.abs().argmax(1, keepdim=True)
        return torch.zeros_like(flat).scatter_(1, where, flat.gather(1, where).sign() * size[:, None]).view_as(gradient)

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        """Laplace direction, which is uniform on the sphere of this norm, with a uniform length."""
        u = _signed(like, generators, lengths)
        laplace = -u.sign() * torch.log1p(-u.abs().clamp_max(1 - 1e-7))
        length = uniform_like(like.flatten(1)[:, :1], generators).squeeze(1)
        return self.fill(laplace) * expand(length, like)


class L0Ball(Ball):
    """At most `radius` coordinates changed; how far is left to the range of the samples."""

    sparse = True
    reach: ClassVar[float] = 2.0
    """The widest change a coordinate may need: the whole range of a clip."""

    def norm(self, delta: Tensor) -> Tensor:
        return (delta.flatten(1) != 0).sum(1).to(delta.dtype)

    def project(self, delta: Tensor) -> Tensor:
        """Keep the largest entries; of equal ones, the first."""
        flat = delta.flatten(1)
        order = flat.abs().argsort(dim=1, descending=True, stable=True)
        keep = torch.arange(flat.shape[1], device=flat.device) < self.radius[:, None]
        return torch.zeros_like(flat).scatter_(1, order, flat.gather(1, order) * keep).view_as(delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """The `size` steepest coordinates pushed as far as a sample can go."""
        pushed = replace(self, radius=size.floor().clamp_min(1)).project(gradient)
        return pushed.sign() * self.reach

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        return self.project(_signed(like, generators, lengths) * self.reach)

    def fill(self, delta: Tensor) -> Tensor:
        """As many of the largest changes as the budget allows."""
        return self.project(delta)


def _signed(like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None) -> Tensor:
    """(B, ...) numbers in [-1, 1); padding stays 0."""
    drawn = 2 * uniform_like(like, generators, lengths) - 1
    mask = valid(like, lengths)
    return drawn if mask is None else drawn * mask
