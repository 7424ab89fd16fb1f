"""Giving up samples early: extrapolates the progress of a search to its end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Forecast:
    """Forecast of the progress of each sample, made whenever about twice as much work is done as before."""

    give_up: float
    """Assumed gain of each further doubling of the work, as a multiple of the last one's; 0: no sample is
    given up."""
    total: int
    """Total work of the search."""
    looks: Sequence[int]
    """Amounts of work, rising, after which forecasts are made. The first only records the value that later
    ones compare with."""
    before: Tensor | None = None
    """(B,) distance from the goal at the last forecast."""

    def at(self, made: int, missing: Tensor) -> Tensor:
        """(B,) bool: the samples to give up, given the work done (`made`) and the distances from the goal
        (`missing`, (B,))."""
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
