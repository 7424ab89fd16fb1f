r"""Basic iterative method. Kurakin et al. 2017, https://arxiv.org/abs/1607.02533:

    x^0 = x,    x^{t+1} = Clip_{x, eps} ( x^t + alpha * sign( grad_x L(theta, x^t, y) ) )

The paper's "iterative least-likely class" is the goal {name: target_class, target: least_likely}. For other
budgets than linf the sign becomes the steepest step of that norm.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem


class BIM(AttackOptions):
    starts_clean: ClassVar[bool] = True

    steps: int = Field(default=10, ge=1)
    """Gradient steps."""
    step_size: float = Field(default=0.0, ge=0)
    """Length of a step as a share of the budget's radius; 0 means 1.25 / steps."""
    early_stop: bool = True
    """A sample leaves the batch as soon as it reaches the goal. If false, every step is made, as in the
    paper."""

    @property
    def continues_after_success(self) -> bool:
        return not self.early_stop

    def cost(self, classes: int | None = None) -> float:
        return self.steps


@torch.no_grad()
def bim(problem: Problem, options: BIM) -> Tensor:
    alpha = problem.ball.radius * (options.step_size or 1.25 / options.steps)
    x_adv, active = problem.x.clone(), problem
    left = torch.arange(len(problem), device=problem.x.device)
    for _ in range(options.steps):
        gradient, _, reached = active.gradient(x_adv[left], confirm=options.early_stop)
        if options.early_stop and active.deterministic and bool(reached.any()):
            stay = ~reached
            active, left, gradient = active.rows(stay), left[stay], gradient[stay]
            if not len(left):
                break
        x_adv[left] = active.step(x_adv[left], gradient, alpha[left])
    return x_adv
