"""Our attacks started at the random points of pyautoattack, the original code, so that two implementations of the
same algorithm can be compared picture by picture."""

import torch
from timing import Run
from torch import Tensor, nn

from limen.attacks import cascade
from limen.attacks.engine.problem import Problem


def shared_start(problem: Problem) -> Tensor:
    """The point at which pyautoattack starts under linf, drawn from torch's global stream."""
    drawn = 2 * torch.rand(problem.x.shape) - 1
    return problem.clip(problem.x + problem.ball.fill(drawn))


def from_their_starts(ours: Run) -> Run:
    """The run with its start points from torch's global stream, seeded before each attack of our auto_attack, as
    in pyautoattack. Square keeps our draws."""

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
