"""Our attacks from the random points at which pyautoattack, that is the original code, starts: two libraries
that implement one algorithm can then be compared picture by picture."""

import torch
from timing import Run
from torch import Tensor, nn

from limen.attacks import cascade
from limen.attacks.engine.problem import Problem


def shared_start(problem: Problem) -> Tensor:
    """Where pyautoattack starts under linf, drawn from torch's own stream."""
    drawn = 2 * torch.rand(problem.x.shape) - 1
    return problem.clip(problem.x + problem.ball.fill(drawn))


def from_their_starts(ours: Run) -> Run:
    """pyautoattack sets the stream anew before each of its attacks, and so must those of our auto_attack.
    Square's draws stay ours."""

    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        start, alone = Problem.start, cascade.alone

        def seeded(spec: cascade.Spec) -> object:
            torch.manual_seed(seed)
            return alone(spec)

        Problem.start, cascade.alone = shared_start, seeded  # type: ignore[method-assign, assignment]
        torch.manual_seed(seed)
        try:
            return ours(network, x, y, seed)
        finally:
            Problem.start, cascade.alone = start, alone  # type: ignore[method-assign]

    return run
