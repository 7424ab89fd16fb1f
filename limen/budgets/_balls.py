"""What the attacker may change: balls around each clean sample, one radius per sample.

A ball gives an exact projection, the steepest step and a random start. Rows never look at each other. A projection never
creates change where there was none, so padding that is not perturbed stays untouched.
"""

from collections.abc import Callable, Sequence
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


BLOCK = 4096


def length(x: Tensor) -> Tensor:
    """(B, ...) -> (B,) Euclidean norms. Of clips (B, T) block by block: the same to the last bit however much padding follows a clip, and
    ten digits more precise than one sum over a hundred thousand samples."""
    if x.dim() > 2:
        return x.flatten(1).norm(dim=1)
    whole = x.shape[1] - x.shape[1] % BLOCK
    rest = torch.nn.functional.pad(x[:, whole:], (0, whole + BLOCK - x.shape[1]))[:, None]
    parts = [x.unfold(1, BLOCK, BLOCK), rest] if whole else [rest]
    norms = torch.cat([part.norm(dim=2) for part in parts], 1)
    return norms.square_().cumsum(1)[:, -1].sqrt_()  # one after another: blocks of padding at the end add nothing


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
        return length(delta)

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
        dimensions = like[0].numel() if lengths is None else lengths.to(like) * (like[0].numel() // like.shape[-1])
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
        size = flat.abs()

        def threshold(u: Tensor, where: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            ranks = torch.arange(1, u.shape[1] + 1, device=u.device, dtype=u.dtype)
            thetas = (u.cumsum(1) - self.radius[rows, None]) / ranks
            above = u > thetas.clamp_min(0)
            return thetas.gather(1, above.sum(1, keepdim=True).clamp_min(1) - 1).clamp_min(0), ~above[:, -1]

        return flat.sign().mul_(size.sub(from_largest(size, threshold)).clamp_min_(0)).view_as(delta)

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

    def start(self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None) -> Tensor:
        return self.project(_signed(like, generators, lengths) * self.reach)

    def fill(self, delta: Tensor) -> Tensor:
        """As many of the largest changes as the budget allows."""
        return self.project(delta)


def from_largest(size: Tensor, threshold: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """(B, 1) a number per row of `size` (B, n) that in most rows hangs on the few largest entries alone, so that not all need be sorted.

    `threshold` gets the largest entries of some rows in falling order, where they stand, and the row numbers; it gives the numbers, and
    whether they are final (B,). Rows that are not come again with four times as many entries."""
    found, rows, k = size.new_empty(len(size), 1), torch.arange(len(size), device=size.device), 64
    while len(rows):
        left = size if len(rows) == len(size) else size[rows]
        top, where = left.topk(k) if k < size.shape[1] else left.sort(dim=1, descending=True)
        found[rows], final = threshold(top, where, rows)
        rows, k = rows[~final] if k < size.shape[1] else rows[:0], 4 * k
    return found


def _signed(like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None) -> Tensor:
    """(B, ...) numbers in [-1, 1); padding stays 0."""
    drawn = 2 * uniform_like(like, generators, lengths) - 1
    mask = valid(like, lengths)
    return drawn if mask is None else drawn * mask
