"""What the attacker may change: balls around each clean sample, one radius per sample.

A ball gives an exact projection, the steepest step and a random start. Rows never look at each other. A
projection never creates change where there was none, so padding that is not perturbed stays untouched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from limen.core.seeds import normal_like, uniform_like
from limen.core.types import valid

B = TypeVar("B", bound="Ball")


def expand(values: Tensor, like: Tensor) -> Tensor:
    """(B,) -> (B, 1, ..., 1)."""
    return values.view(-1, *[1] * (like.dim() - 1))


BLOCK = 4096


def length(x: Tensor) -> Tensor:
    """(B, ...) -> (B,) Euclidean norms. Of clips (B, T) block by block: the same to the last bit however much
    padding follows a clip, and ten digits more precise than one sum over a hundred thousand samples."""
    if x.dim() > 2:
        return x.flatten(1).norm(dim=1)
    whole = x.shape[1] - x.shape[1] % BLOCK
    rest = torch.nn.functional.pad(x[:, whole:], (0, whole + BLOCK - x.shape[1]))[:, None]
    parts = [x.unfold(1, BLOCK, BLOCK), rest] if whole else [rest]
    norms = torch.cat([part.norm(dim=2) for part in parts], 1)
    return (
        norms.square_().cumsum(1)[:, -1].sqrt_()
    )  # one after another: blocks of padding at the end add nothing


@dataclass(frozen=True)
class Ball:
    """{delta : norm(delta) <= radius}, per sample."""

    radius: Tensor
    """(B,)."""
    sparse: ClassVar[bool] = False
    """True if the steepest step moves few coordinates; one that the range stops must then make way for the
    next steepest."""

    def norm(self, delta: Tensor) -> Tensor:
        """(B, ...) -> (B,)."""
        raise NotImplementedError

    def project(self, delta: Tensor) -> Tensor:
        """The nearest point of the ball, in the Euclidean sense, as a new tensor."""
        raise NotImplementedError

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """The change of norm `size` (B,) that raises a linear function with this gradient most, as a new
        tensor."""
        raise NotImplementedError

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        """A random point of the ball; padding (beyond `lengths`) stays 0."""
        raise NotImplementedError

    def fill(self, delta: Tensor) -> Tensor:
        """The change in the same direction whose norm is exactly the radius; no change stays none."""
        largest = delta.flatten(1).abs().amax(1)
        scaled = delta / expand(
            torch.where(largest > 0, largest, 1), delta
        )  # squares of small changes would vanish
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

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        return _signed(like, generators, lengths) * expand(self.radius, like)


class L2Ball(Ball):
    def norm(self, delta: Tensor) -> Tensor:
        return length(delta)

    def project(self, delta: Tensor) -> Tensor:
        scale = (self.radius / self.norm(delta).clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)
        return delta * expand(scale, delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        norm = self.norm(gradient)
        if not bool(
            (norm > 1e-15).all()
        ):  # squares of gradients below 1e-19 vanish in single precision: scale by the largest entry first
            largest = gradient.flatten(1).abs().amax(1)
            gradient = gradient / expand(torch.where(largest > 0, largest, 1), gradient)
            norm = self.norm(gradient)
        return gradient * expand(size / torch.where(norm > 0, norm, 1), gradient)

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        """Uniform in the ball: a normal direction, and the d-th root of a uniform number as its length."""
        direction = normal_like(like, generators, lengths)
        dimensions = (
            like[0].numel() if lengths is None else lengths.to(like) * (like[0].numel() // like.shape[-1])
        )
        length = uniform_like(like.flatten(1)[:, :1], generators).squeeze(1) ** (1 / dimensions)
        return self.fill(direction) * expand(length, like)


class L1Ball(Ball):
    sparse = True

    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().sum(1)

    def project(self, delta: Tensor) -> Tensor:
        r"""Soft threshold with the one theta for which the norm is the radius. Duchi et al. 2008,
        https://doi.org/10.1145/1390156.1390191: theta = (sum_{i in S} |d_i| - radius) / |S|, S those larger
        than theta. From S = all of them, whoever falls below leaves, until none does (Michelot 1986,
        https://doi.org/10.1007/BF00938486): theta only rises, and no sort is needed."""
        flat = delta.flatten(1)
        size = flat.abs()
        above, left = self._above(size.detach())
        return size.sub(self._threshold(above * size, left)).mul_(above).mul_(flat.sign()).view_as(delta)

    def _above(self, size: Tensor) -> tuple[Tensor, Tensor]:
        """(B, n) 1 for what is larger than the threshold, else 0, and (B, 1) how many those are."""
        theta, above, before = (
            torch.zeros_like(size[:, :1]),
            torch.empty_like(size),
            torch.full_like(size[:, :1], -1),
        )
        while True:
            left = torch.gt(size, theta, out=above).sum(1, keepdim=True)
            if bool((left == before).all()):
                return above, left
            theta, before = theta.maximum(self._threshold(above.mul_(size), left)), left

    def _threshold(self, kept: Tensor, count: Tensor) -> Tensor:
        """(B, 1) what `count` (B, 1) magnitudes, the others being 0, must lose each for their sum to be the
        radius."""
        return ((kept.sum(1, keepdim=True) - self.radius[:, None]) / count.clamp_min(1)).clamp_min(0)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """All of the change on the one steepest coordinate."""
        flat = gradient.flatten(1)
        where = flat.abs().argmax(1, keepdim=True)
        return (
            torch.zeros_like(flat)
            .scatter_(1, where, flat.gather(1, where).sign() * size[:, None])
            .view_as(gradient)
        )

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
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
        size = delta.flatten(1).abs()
        count = self.radius[:, None].ceil().clamp_max(size.shape[1])
        if not len(delta):
            return delta.clone()
        last = size.topk(max(1, int(count.max()))).values.gather(1, (count.long() - 1).clamp_min(0))
        above, level = size > last, size == last
        keep = above | (level & (level.cumsum(1) <= count - above.sum(1, keepdim=True)))
        return delta * (keep & (count > 0)).view_as(delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """The `size` steepest coordinates pushed as far as a sample can go."""
        pushed = replace(self, radius=size.floor().clamp_min(1)).project(gradient)
        return pushed.sign() * self.reach

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        return self.project(_signed(like, generators, lengths) * self.reach)

    def fill(self, delta: Tensor) -> Tensor:
        """As many of the largest changes as the budget allows."""
        return self.project(delta)


def _signed(like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None) -> Tensor:
    """(B, ...) numbers in [-1, 1); padding stays 0."""
    drawn = 2 * uniform_like(like, generators, lengths) - 1
    mask = valid(like, lengths)
    return drawn if mask is None else drawn * mask
