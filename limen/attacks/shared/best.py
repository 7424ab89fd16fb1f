"""The best point so far of every sample, for searches that make several runs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem


@dataclass
class Best:
    x: Tensor
    """(B, ...), at first the clean samples."""
    loss: Tensor
    reached: Tensor

    @staticmethod
    def none(problem: Problem) -> "Best":
        n = len(problem)
        return Best(
            problem.x.clone(),
            problem.x.new_full((n,), -torch.inf),
            torch.zeros(n, dtype=torch.bool, device=problem.x.device),
        )

    def take(self, rows: Tensor, x: Tensor, loss: Tensor, reached: Tensor) -> None:
        """Update with new points: a point that reaches the goal is better than any that does not; among
        equals, the higher loss wins."""
        before = self.reached[rows]
        i = ((reached & ~before) | ((reached == before) & (loss > self.loss[rows]))).nonzero().squeeze(1)
        self.x[rows[i]], self.loss[rows[i]], self.reached[rows[i]] = x[i], loss[i], reached[i]
