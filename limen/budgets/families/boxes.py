"""One interval for each value: tolerances that differ from place to place within a sample."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from limen.budgets.families.balls import expand
from limen.budgets.families.budget import Budget
from limen.core.seeds import uniform_like


@dataclass(frozen=True)
class Box(Budget):
    """{delta : radius * low <= delta <= radius * high}, value by value.

    The size of a change is its largest ratio to its interval's end; with a radius of 1 the intervals are
    `low` and `high` themselves. A value whose interval is 0 must not change; padding is such a value.
    """

    low: Tensor
    """(B, ...) least change of each value, at most 0."""
    high: Tensor
    """(B, ...) largest change of each value, at least 0."""
    name: str = "box"

    coordinatewise = True

    @property
    def title(self) -> str:
        return self.name

    @classmethod
    def symmetric(cls, reach: Tensor, name: str = "box") -> "Box":
        """Each value may change by `reach` (B, ...) in both directions."""
        return cls(reach.new_ones(len(reach)), -reach, reach, name)

    def interval(self, like: Tensor) -> tuple[Tensor, Tensor]:
        radius = expand(self.radius, like)
        return self.low * radius, self.high * radius

    def norm(self, delta: Tensor) -> Tensor:
        return self._ratios(delta).flatten(1).amax(1)

    def _ratios(self, delta: Tensor) -> Tensor:
        """(B, ...) each change as a share of its end of the interval; infinite if it must not change."""
        end = torch.where(delta > 0, self.high, -self.low)
        return torch.where(delta == 0, 0, delta.abs() / end)

    def project(self, delta: Tensor) -> Tensor:
        low, high = self.interval(delta)
        return torch.minimum(delta, high).maximum(low)

    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """Each value to the end of its interval that the gradient points to, times `size`."""
        way = torch.where(gradient > 0, self.high, torch.where(gradient < 0, self.low, 0))
        return way * expand(size, gradient)

    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        low, high = self.interval(like)
        return low + uniform_like(like, generators, lengths) * (high - low)

    def fill(self, delta: Tensor) -> Tensor:
        allowed = torch.where(torch.where(delta > 0, self.high, -self.low) > 0, delta, 0)
        largest = allowed.flatten(1).abs().amax(1)
        scaled = allowed / expand(torch.where(largest > 0, largest, 1), delta)
        norm = self.norm(scaled)
        return scaled * expand(self.radius / torch.where(norm > 0, norm, 1), delta)

    def spread(self, draw: Tensor) -> Tensor:
        """The draw as a share of each interval, so that tight intervals do not quieten wide ones."""
        return self.fill(torch.where(draw > 0, draw * self.high, -draw * self.low))

    def beyond(self, delta: Tensor, slack: float = 0.0) -> Tensor:
        return self._ratios(delta) > expand(self.radius.double() * (1 + slack), delta)

    def cut(self, length: int) -> "Box":
        return replace(self, low=self.low[..., :length], high=self.high[..., :length])

    def rows(self, index: Tensor) -> "Box":
        return replace(self, radius=self.radius[index], low=self.low[index], high=self.high[index])
