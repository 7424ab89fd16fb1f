"""A bound on a differentiable distance between the clean and the changed sample: learned metrics, similarity.

There is no closed-form projection. A change that is too large is scaled back towards the clean sample: of the
points on the segment between them the search takes one whose distance is between (1 - TOLERANCE) times the
bound and the bound, never above it. Sizes of steps are shares of the way to the bound in their direction.

Attacks that weigh the distance against their loss (a penalty or a Lagrangian) call `distance`, which has a
gradient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from limen.budgets.families.balls import expand
from limen.budgets.families.budget import Budget
from limen.core.seeds import normal_like, uniform_like

TOLERANCE = 1e-3
"""A scaled change is this close to the bound, as a share of it, unless the distance jumps there."""
HALVINGS = 50
"""Most halvings of the interval in which the bound is met."""
DOUBLINGS = 12
"""Most doublings of a change in search of the bound; beyond them the range of samples stops nearly all."""


@dataclass(frozen=True)
class BoundedDistance(Budget):
    """{delta : distance(x + delta) <= radius}, with x + delta inside the range of samples.

    The distance of a clean sample to itself must be 0 and each row's distance its own; it need not be a norm,
    nor grow along every line.
    """

    x: Tensor
    """(B, ...) clean samples."""
    measure: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    """(x, x_adv, lengths) -> (B,) distances, differentiable by x_adv."""
    low: Tensor | float
    high: Tensor | float
    """The range of samples."""
    lengths: Tensor | None = None
    name: str = "bounded distance"

    exact_projection = False

    @property
    def title(self) -> str:
        return self.name

    def distance(self, x_adv: Tensor) -> Tensor:
        """(B,) with a gradient."""
        if not len(x_adv):
            return x_adv.new_zeros(0)
        return self.measure(self.x.to(x_adv), x_adv, self.lengths)

    def norm(self, delta: Tensor) -> Tensor:
        return self.distance(self.x.to(delta) + delta)

    def project(self, delta: Tensor) -> Tensor:
        """The change cut to the range of samples, and scaled back if its distance is too large."""
        delta = self._in_range(delta)
        outside = (~self.inside(delta.detach())).nonzero().squeeze(1)
        if not len(outside):
            return delta
        share = delta.new_ones(len(delta))
        share[outside] = self.rows(outside)._met(delta.detach()[outside], share.new_zeros(len(outside)), 1.0)
        return delta * expand(share, delta)

    def fill(self, delta: Tensor) -> Tensor:
        direction = _unit(delta)
        return self.project(direction * expand(self._reach(direction), delta))

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """Along the gradient: `size` / radius of the way from the clean sample to the bound."""
        direction = _unit(gradient)
        return direction * expand(self._reach(direction) * (size / self.radius), gradient)

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        """A normal direction and a uniform share of the way to the bound."""
        share = uniform_like(like.flatten(1)[:, :1], generators).squeeze(1)
        return self.project(self.fill(normal_like(like, generators, lengths)) * expand(share, like))

    def cut(self, length: int) -> "BoundedDistance":
        return replace(self, x=self.x[..., :length])

    def rows(self, index: Tensor) -> "BoundedDistance":
        lengths = None if self.lengths is None else self.lengths[index.to(self.lengths.device)]
        return replace(self, radius=self.radius[index], x=self.x[index], lengths=lengths)

    def _in_range(self, delta: Tensor) -> Tensor:
        x = self.x.to(delta)
        low, high = (torch.as_tensor(end).to(delta) for end in (self.low, self.high))
        return torch.minimum(torch.maximum(delta, low - x), high - x)

    def _reach(self, direction: Tensor) -> Tensor:
        """(B,) how far along a direction whose largest entry is 1 the bound is met. If it is not met before
        the range of samples stops every value, the last length tried."""
        low, high = direction.new_zeros(len(direction)), direction.new_ones(len(direction))
        open_rows = torch.arange(len(direction), device=direction.device)
        for _ in range(DOUBLINGS):
            budget, way = self.rows(open_rows), direction[open_rows]
            within = budget.inside(budget._in_range(way * expand(high[open_rows], way)))
            open_rows = open_rows[within]
            if not len(open_rows):
                break
            low[open_rows], high[open_rows] = high[open_rows], 2 * high[open_rows]
        met = torch.ones(len(direction), dtype=torch.bool, device=direction.device)
        met[open_rows] = False
        i = met.nonzero().squeeze(1)
        low[i] = self.rows(i)._met(direction[i], low[i], high[i])
        return low

    @torch.no_grad()
    def _met(self, delta: Tensor, low: Tensor, high: Tensor | float) -> Tensor:
        """(B,) the factor of delta in [low, high] at which the bound is met, from inside: the distance is
        within the bound at `low` and above it at `high`."""
        low, high = low.clone(), low.new_zeros(len(low)) + high
        left = torch.arange(len(delta), device=delta.device)
        for _ in range(HALVINGS):
            if not len(left):
                break
            budget, way = self.rows(left), delta[left]
            middle = (low[left] + high[left]) / 2
            size = budget.norm(budget._in_range(way * expand(middle, way)))
            inside = size <= budget.radius
            low[left] = torch.where(inside, middle, low[left])
            high[left] = torch.where(inside, high[left], middle)
            left = left[~(inside & (size >= (1 - TOLERANCE) * budget.radius))]
        return low


def _unit(direction: Tensor) -> Tensor:
    """(B, ...) with the largest entry 1; no direction stays none."""
    largest = direction.flatten(1).abs().amax(1)
    return direction / expand(torch.where(largest > 0, largest, 1), direction)
