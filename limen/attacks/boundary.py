r"""Boundary attack: a random walk along the decision boundary that uses only decisions of the model. Brendel
et al. 2018, https://arxiv.org/abs/1712.04248:

    eta ~ N(0, I) orthogonal to x - x_t, of length delta ||x - x_t||;
        s_t = x_t + eta, put back on the sphere around x
    x_{t+1} = s_t + epsilon ( x - s_t )   if that reaches the goal, else x_t

delta follows how often s_t reaches the goal, epsilon how often x_{t+1} does. Departs from the paper: the walk
starts on the boundary (bisection from noise, see `limen/attacks/shared/decision.py`), and both step lengths
change a little after every evaluation instead of by a half after a hundred. A sample for which no noise
reaches the goal, as is common with targets, is returned unchanged.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.decision import distance, on_boundary
from limen.budgets.families.balls import expand
from limen.core.seeds import normal_like

BLOCK = 10
"""Steps whose noise is drawn at once; with the last of them s_t is evaluated as well."""
SPHERE, TOWARDS = 0.4, 0.2
"""Wanted success rates of the steps: on the sphere, and towards the clean sample."""
SPHERE_RATE, TOWARDS_RATE = 0.5, 0.15
"""Change of the logarithm of a step length per evaluation."""


class Boundary(AttackOptions):
    minimal: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False
    compares_logits: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"queries": 60}

    queries: int = Field(default=5000, ge=1)
    """Largest number of evaluations of the model per sample."""
    spherical_step: float = Field(default=0.1, gt=0)
    """First delta, as a share of the distance."""
    source_step: float = Field(default=0.02, gt=0, lt=1)
    """First epsilon, as a share of the distance."""
    start_tries: int = Field(default=100, ge=0)
    """Largest number of noise samples tried as a start."""

    def cost(self, classes: int | None = None) -> float:
        return self.queries * FORWARD


@torch.no_grad()
def boundary(problem: Problem, options: Boundary) -> Tensor:
    queries = options.queries // problem.draws
    x_adv, left, spent = on_boundary(problem, options.start_tries, "l2", queries)
    active, x_t, spent = problem.rows(left), x_adv[left], spent[left]
    delta, epsilon = (
        x_t.new_full((len(left),), size) for size in (options.spherical_step, options.source_step)
    )
    while len(left):
        # every row ends with a complete block, so which rows continue does not depend on the others
        stay = spent + BLOCK + 1 <= queries
        if not bool(stay.all()):
            x_adv[left[~stay]] = x_t[~stay]
            active, left, x_t, spent, delta, epsilon = (
                active.rows(stay),
                *(v[stay] for v in (left, x_t, spent, delta, epsilon)),
            )
            continue
        like = active.x[:, None].expand(-1, BLOCK, *active.x.shape[1:])
        noise = normal_like(like, active.generators, None if active.mask is None else active.lengths)
        for k in range(BLOCK):
            sphere, nearer = _proposed(active, x_t, noise[:, k], delta, epsilon)
            reached = active.reached(nearer)
            closer = distance(active, nearer, "l2") < distance(active, x_t, "l2")
            x_t = torch.where(expand(reached & closer, x_t), nearer, x_t)
            epsilon = (epsilon * (TOWARDS_RATE * (reached.to(epsilon) - TOWARDS)).exp()).clamp_max(0.5)
        delta = delta * (SPHERE_RATE * (active.reached(sphere).to(delta) - SPHERE)).exp()
        spent = spent + BLOCK + 1
    return problem.project(x_adv)


def _proposed(
    active: Problem, x_t: Tensor, noise: Tensor, delta: Tensor, epsilon: Tensor
) -> tuple[Tensor, Tensor]:
    """The point on the sphere, and that point moved towards the clean sample."""
    way = x_t - active.x
    size = way.flatten(1).norm(dim=1)
    along = (noise * way).flatten(1).sum(1) / size.square()
    eta = noise - expand(along, way) * way
    eta = eta * expand(delta * size / eta.flatten(1).norm(dim=1).clamp_min(torch.finfo(size.dtype).tiny), eta)
    sphere = active.clip(active.x + (way + eta) / expand((1 + delta.square()).sqrt(), way))
    return sphere, active.clip(sphere + expand(epsilon, way) * (active.x - sphere))
