"""Random noise of the size of the budget: the control that every attack must exceed.

No gradient is used. The draw is scaled to have exactly the norm of the budget (a quieter one would be no fair
control), then cut to the range of the samples.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.core.seeds import normal_like, uniform_like


class RandomNoise(AttackOptions):
    changes_every_sample: ClassVar[bool] = True
    """A control must change all samples alike."""
    uses_gradients: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"tries": 3}

    distribution: Literal["uniform", "gaussian", "sign"] = "uniform"
    """Uniform in [-1, 1], normal, or -1 / +1 with even odds, before scaling."""
    tries: int = Field(default=1, ge=1)
    """Draws; the first that reaches the goal is kept, otherwise the last."""

    def cost(self, classes: int | None = None) -> float:
        return (self.tries - 1) * FORWARD


@torch.no_grad()
def random_noise(problem: Problem, options: RandomNoise) -> Tensor:
    x_adv, active = problem.x.clone(), problem
    left = torch.arange(len(problem), device=problem.x.device)
    for attempt in range(options.tries):
        x_adv[left] = active.clip(active.x + active.ball.spread(_noise(active, options.distribution)))
        if attempt + 1 == options.tries:
            break
        stay = ~active.reached(x_adv[left])
        active, left = active.rows(stay), left[stay]
        if not len(left):
            break
    return x_adv


def _noise(problem: Problem, distribution: str) -> Tensor:
    lengths = None if problem.mask is None else problem.lengths
    if distribution == "gaussian":
        return normal_like(problem.x, problem.generators, lengths)
    noise = 2 * uniform_like(problem.x, problem.generators, lengths) - 1
    noise = noise.sign() if distribution == "sign" else noise
    return noise if problem.mask is None else noise * problem.mask
