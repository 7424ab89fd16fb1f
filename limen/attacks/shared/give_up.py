"""When a long search should leave a sample alone: what is still missing would not be gone at its end, going
by what was gained so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Forecast:
    """Looks at the samples now and then, each time with about twice as much work done as the last time."""

    give_up: float
    """Each further doubling of the work may gain this many times what the last one did; 0: nobody is given
    up."""
    total: int
    """All the work there is."""
    looks: Sequence[int]
    """Rising: work done when it looks next, or as soon after as it is asked. The first look only writes down
    what later ones compare with."""
    before: Tensor | None = None
    """(B,) what was missing at the last look."""

    def at(self, made: int, missing: Tensor) -> Tensor:
        """(B,) bool: whom to give up, with so much work `made` and so much `missing` (B,); 0 is the goal."""
        gone = torch.zeros_like(missing, dtype=torch.bool)
        if not self.give_up or not self.looks or made < self.looks[0]:
            return gone
        self.looks = [look for look in self.looks if look > made]
        if self.before is not None:
            gained = (self.before - missing).nan_to_num(
                0.0, posinf=torch.inf
            )  # infinitely far twice: nothing gained
            gone = missing - self.give_up * gained * math.log2(self.total / made) > 0
        self.before = missing.clone()
        return gone

    def rows(self, keep: Tensor) -> "Forecast":
        return Forecast(
            self.give_up, self.total, self.looks, None if self.before is None else self.before[keep]
        )
