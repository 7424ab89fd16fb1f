r"""Universal adversarial perturbation: one change for all samples. Moosavi-Dezfooli et al. 2017,
https://arxiv.org/abs/1610.08401:

    for x_i with  f(x_i + v) = f(x_i):    dv_i = argmin_r ||r||  s.t.  f(x_i + v + r) != f(x_i),
        v <- P_{p, xi}(v + dv_i)

until the share of fooled samples is at least `rate`. With the goal target_class: one change that leads every
sample to one class, f(x_i + v + r) = t. The inner search is any attack. Departs from the paper: the changes
of `at_once` samples are computed together and added (1 is the paper's order).
"""

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.perturbation import Shape, fooled, inner_attack, nothing, shuffled, single
from limen.core.components import spec_of


class UAP(AttackOptions):
    universal: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(
        options={
            "l2": {"inner": {"name": "deepfool"}},
            "linf": {"inner": {"name": "deepfool", "norm": "linf"}},
            "l1": {"inner": {"name": "pgd"}},
        }
    )
    quick: ClassVar[dict[str, Any]] = {"epochs": 2, "at_once": 3}
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"inner": {"name": "pgd", "steps": 5}, "epochs": 2},)

    inner: Annotated[dict[str, Any], spec_of("attacks")] | None = None
    """The attack on single samples: {name: ..., its options}. One that needs a budget gets this attack's own.
    Null: deepfool, as in the paper, or ddn if the goal names a target, which deepfool does not support."""
    epochs: int = Field(default=5, ge=1)
    """Largest number of passes over the samples."""
    rate: float = Field(default=0.8, gt=0, le=1)
    """Share of fooled samples at which the search stops."""
    at_once: int = Field(default=16, ge=1)
    """Samples whose changes are computed in one batch."""
    samples: int | None = Field(default=1000, ge=1)
    """Training samples that an experiment crafts on; null: all."""

    @property
    def crafting_samples(self) -> int | None:
        return self.samples

    def crafting_cost(self) -> float:
        return self.epochs * inner_attack(self._inner(targeted=False))[1].cost()

    @torch.no_grad()
    def craft(self, problem: Problem) -> dict[str, Tensor]:
        shape, best, rates = nothing(problem, "uap"), nothing(problem, "uap"), []
        inner = self._inner(problem.goal.targeted)
        for _ in range(self.epochs):
            for chunk in shuffled(problem).split(self.at_once):
                rows = problem.rows(chunk)
                rows = rows.rows(~rows.reached(shape.on(rows)))
                if len(rows):
                    delta, useful = single(rows, shape, inner)
                    shape = shape.plus(rows.rows(useful), delta[useful])
            now = fooled(problem, shape)
            assert now is not None
            rates.append(now.float().mean())
            if rates[-1] >= max(rates):
                best = shape  # an epoch may also be worse than the one before
            if rates[-1] >= self.rate:
                break
        return {"perturbation": best.v, "radius": best.radius, "fooling_rate": torch.stack(rates)}

    def _inner(self, targeted: bool) -> dict[str, Any]:
        return self.inner or ({"name": "ddn"} if targeted else {"name": "deepfool", "nearer": 0})


@torch.no_grad()
def uap(problem: Problem, options: UAP, crafted: dict[str, Tensor]) -> Tensor:
    return Shape(crafted["perturbation"], crafted["radius"].to(problem.x)).on(problem)
