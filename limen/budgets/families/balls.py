"""Balls of a norm around each clean sample, with exact projections; one radius per sample."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from limen.budgets.families.budget import Budget, signed_uniform
from limen.core.seeds import normal_like, uniform_like

BLOCK = 4096


def expand(values: Tensor, like: Tensor) -> Tensor:
    """(B,) -> (B, 1, ..., 1)."""
    return values.view(-1, *[1] * (like.dim() - 1))


def length(x: Tensor) -> Tensor:
    """(B, ...) -> (B,) Euclidean norms. Clips (B, T) are summed block by block: the result is the same to the
    last bit however much padding follows a clip, and ten digits more precise than one sum over a hundred
    thousand samples."""
    if x.dim() > 2:
        return x.flatten(1).norm(dim=1)
    whole = x.shape[1] - x.shape[1] % BLOCK
    rest = torch.nn.functional.pad(x[:, whole:], (0, whole + BLOCK - x.shape[1]))[:, None]
    parts = [x.unfold(1, BLOCK, BLOCK), rest] if whole else [rest]
    norms = torch.cat([part.norm(dim=2) for part in parts], 1)
    # one after another: blocks of padding at the end add nothing
    return norms.square_().cumsum(1)[:, -1].sqrt_()


class Ball(Budget):
    """{delta : norm(delta) <= radius} with a norm of the values alone."""

    def fill(self, delta: Tensor) -> Tensor:
        largest = delta.flatten(1).abs().amax(1)
        # squares of small changes would vanish
        scaled = delta / expand(torch.where(largest > 0, largest, 1), delta)
        norm = self.norm(scaled)
        return scaled * expand(self.radius / torch.where(norm > 0, norm, 1), delta)

    def beyond(self, delta: Tensor, slack: float = 0.0) -> Tensor:
        return delta.abs() > expand(self.radius.double() * (1 + slack), delta)


class LinfBall(Ball):
    norm_name = "linf"
    coordinatewise = True

    def interval(self, like: Tensor) -> tuple[Tensor, Tensor]:
        radius = expand(self.radius, like)
        return -radius, radius

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
        return signed_uniform(like, generators, lengths) * expand(self.radius, like)


class L2Ball(Ball):
    norm_name = "l2"

    def norm(self, delta: Tensor) -> Tensor:
        return length(delta)

    def project(self, delta: Tensor) -> Tensor:
        scale = (self.radius / self.norm(delta).clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)
        return delta * expand(scale, delta)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        norm = self.norm(gradient)
        if not bool((norm > 1e-15).all()):
            # squares of gradients below 1e-19 vanish in single precision: scale by the largest entry first
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
    norm_name = "l1"
    sparse = True

    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().sum(1)

    def project(self, delta: Tensor) -> Tensor:
        r"""Soft threshold with the one theta for which the norm is the radius. Duchi et al. 2008,
        https://doi.org/10.1145/1390156.1390191: theta = (sum_{i in S} |d_i| - radius) / |S|, S those larger
        than theta. S begins with all values and loses those below theta until none is (Michelot 1986,
        https://doi.org/10.1007/BF00938486): theta only rises, and no sort is needed."""
        flat = delta.flatten(1)
        size = flat.abs()
        above, left = self._above(size.detach())
        return size.sub(self._threshold(above * size, left)).mul_(above).mul_(flat.sign()).view_as(delta)

    def _above(self, size: Tensor) -> tuple[Tensor, Tensor]:
        """(B, n) 1 for values above the threshold and 0 for others, and (B, 1) the number of those above."""
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
        """(B, 1) how much each of `count` (B, 1) magnitudes must lose for their sum to be the radius; the
        other entries of `kept` are 0."""
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
        u = signed_uniform(like, generators, lengths)
        laplace = -u.sign() * torch.log1p(-u.abs().clamp_max(1 - 1e-7))
        length = uniform_like(like.flatten(1)[:, :1], generators).squeeze(1)
        return self.fill(laplace) * expand(length, like)


class L0Ball(Ball):
    """At most `radius` values changed, each as far as the range of the samples allows."""

    norm_name = "l0"
    sparse = True
    reach: ClassVar[float] = 2.0
    """The widest change a coordinate may need: the whole range of a clip."""

    def norm(self, delta: Tensor) -> Tensor:
        return (delta.flatten(1) != 0).sum(1).to(delta.dtype)

    def project(self, delta: Tensor) -> Tensor:
        """Keep the largest entries; among equal ones, the first."""
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
        return self.project(signed_uniform(like, generators, lengths) * self.reach)

    def fill(self, delta: Tensor) -> Tensor:
        """The largest changes, up to the number the budget allows."""
        return self.project(delta)
