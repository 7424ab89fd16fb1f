"""What every budget gives a search: a projection, a steepest step, a random start and a size, per sample.

Three families implement it: balls with an exact projection (`balls.py`), one interval per value (`boxes.py`),
and a bound on a differentiable distance (`distances.py`). Rows never depend on each other. A projection never
creates change where there was none, so padding that is not perturbed stays untouched.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor

from limen.core.seeds import uniform_like
from limen.core.types import BOUNDS, Kind, valid
from limen.models.base.model import Model

B = TypeVar("B", bound="Budget")
NormName = Literal["linf", "l2", "l1", "l0"]


@dataclass(frozen=True)
class BudgetContext:
    """What a budget is made from: the clean samples and what is known about them."""

    x: Tensor
    """(B, ...) clean samples; padding is 0."""
    kind: Kind
    lengths: Tensor | None = None
    """(B,) valid samples of each clip."""
    rate_hz: int | None = None
    """Sample rate of clips, if it is known."""
    ids: Sequence[str] = ()
    generators: Sequence[torch.Generator] = ()
    """One stream per sample, for budgets that draw at random."""
    model: Model | None = None
    """The attacked model, for distances between what it computes inside."""
    bounds: tuple[Tensor | float, Tensor | float] | None = None
    """The range of samples; tensors broadcast against one sample. None: the natural range of the kind."""

    @property
    def range(self) -> tuple[Tensor | float, Tensor | float]:
        return self.bounds or BOUNDS[self.kind]

    def around(self, x: Tensor) -> "BudgetContext":
        """The same samples in another precision, or as a file stores them."""
        return replace(self, x=x)


@dataclass(frozen=True)
class Budget(ABC):
    """The changes an attacker may make to each sample: {delta : norm(delta) <= radius}."""

    radius: Tensor
    """(B,) the largest size allowed."""

    norm_name: ClassVar[NormName | None] = None
    """The norm, if the budget is a ball of one; None otherwise."""
    coordinatewise: ClassVar[bool] = False
    """True if each value has an interval of its own (`interval`), independent of the other values."""
    sparse: ClassVar[bool] = False
    """True if the steepest step moves few coordinates; one that the range stops must then be replaced by the
    next steepest."""
    exact_projection: ClassVar[bool] = True
    """True if `project` gives the nearest allowed point, False if only some allowed point near it."""

    @property
    def title(self) -> str:
        """The name in error messages."""
        return self.norm_name or type(self).__name__

    @abstractmethod
    def norm(self, delta: Tensor) -> Tensor:
        """(B, ...) -> (B,) the size that `radius` bounds."""

    @abstractmethod
    def project(self, delta: Tensor) -> Tensor:
        """An allowed change near this one, as a new tensor; the nearest in the Euclidean sense if
        `exact_projection`."""

    @abstractmethod
    def step(self, gradient: Tensor, size: Tensor) -> Tensor:
        """The change of size `size` (B,) that raises a linear function with this gradient most, as a new
        tensor."""

    @abstractmethod
    def start(
        self, like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None = None
    ) -> Tensor:
        """A random allowed change; padding (beyond `lengths`) stays 0."""

    @abstractmethod
    def fill(self, delta: Tensor) -> Tensor:
        """The change in the same direction whose size is exactly the radius; no change stays none."""

    def spread(self, draw: Tensor) -> Tensor:
        """Noise (B, ...), drawn alike for every value, as a change that uses the budget fully."""
        return self.fill(draw)

    def interval(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the most that each value may change by, broadcastable to `like`. Budgets that are
        `coordinatewise` only."""
        raise TypeError(f"The budget {self.title} has no interval for each value.")

    def inside(self, delta: Tensor, slack: float = 0.0) -> Tensor:
        """(B,) bool: the change is allowed, up to this share of the radius."""
        return self.norm(delta) <= self.radius.double() * (1 + slack)

    def beyond(self, delta: Tensor, slack: float = 0.0) -> Tensor:
        """(B, ...) bool: values that no allowed change could have, for any other values."""
        return torch.zeros_like(delta, dtype=torch.bool)

    def cut(self: B, length: int) -> B:
        """The same budget for clips of which only the first `length` samples are left."""
        return self

    def rows(self: B, index: Tensor) -> B:
        """The budget of some samples."""
        return replace(self, radius=self.radius[index])


def signed_uniform(like: Tensor, generators: Sequence[torch.Generator], lengths: Tensor | None) -> Tensor:
    """(B, ...) numbers in [-1, 1); padding stays 0."""
    drawn = 2 * uniform_like(like, generators, lengths) - 1
    mask = valid(like, lengths)
    return drawn if mask is None else drawn * mask
