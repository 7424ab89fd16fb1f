r"""Single-class universal perturbations, one for the samples of each true class, by hill climbing. Vadillo
and Santana 2019, https://arxiv.org/abs/1911.10182:

    for x_i of class c with f(x_i + v_c) = f(x_i):    v' = P_{2, eps}(v_c + DeepFool(x_i + v_c)),
        v_c <- v' if FR(v') > FR(v_c)

FR is the share of the class's samples that are fooled. The search stops after `epochs` passes, or after one
that changed nothing, as in the authors' code. The defaults are those of Vadillo and Santana 2021, who bound
the L2 norm by 0.1 for clips of 1 s. Departs from both: the changes of `at_once` samples are computed together
(1 is the paper's order) and then tried one by one.
"""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.perturbation import Shape, fooled, nothing, shuffled, single
from limen.core.errors import UserError


class UAPHC(AttackOptions):
    universal: ClassVar[bool] = True
    promise: ClassVar[LinearPromise] = LinearPromise(norms=("l2",))
    quick: ClassVar[dict[str, Any]] = {"epochs": 2, "at_once": 3}

    epochs: int = Field(default=5, ge=1)
    """Largest number of passes over the samples of a class."""
    steps: int = Field(default=100, ge=1)
    """Largest number of steps of DeepFool on one sample."""
    overshoot: float = Field(default=0.1, ge=0)
    """DeepFool's overshoot."""
    k_classes: int = Field(default=12, ge=2)
    """Classes that DeepFool considers."""
    at_once: int = Field(default=16, ge=1)
    """Samples whose changes are computed in one batch."""
    samples: int | None = Field(default=None, ge=1)
    """Training samples of all classes together that an experiment crafts on; null: all."""

    @property
    def crafting_samples(self) -> int | None:
        return self.samples

    def crafting_cost(self) -> float:
        return self.epochs * self.steps

    @torch.no_grad()
    def craft(self, problem: Problem) -> dict[str, Tensor]:
        """Perturbation and training fooling rate of every class that the samples hold."""
        need_classes(problem, "uap_hc")
        crafted: dict[str, Tensor] = {}
        for c in torch.as_tensor(problem.y).unique().tolist():
            shape, rate = _climb(problem.rows(torch.as_tensor(problem.y) == c), self)
            crafted |= {f"perturbation_{c}": shape.v, f"radius_{c}": shape.radius, f"fooling_rate_{c}": rate}
        return crafted


def _climb(problem: Problem, options: UAPHC) -> tuple[Shape, Tensor]:
    inner = {
        "name": "deepfool",
        "steps": options.steps,
        "overshoot": options.overshoot,
        "k_classes": options.k_classes,
        "nearer": 0,
    }
    shape = nothing(problem, "uap_hc")
    now = fooled(problem, shape)
    assert now is not None
    for _ in range(options.epochs):
        before = now
        for chunk in shuffled(problem).split(options.at_once):
            left = chunk[~now[chunk]]
            if not len(left):
                continue
            delta, useful = single(problem.rows(left), shape, inner)
            for k in useful.nonzero().squeeze(1):
                if now[left[k]]:
                    continue  # fooled since by the change of another
                candidate = shape.plus(problem.rows(left[k, None]), delta[k, None])
                after = fooled(problem, candidate, more_than=int(now.sum()))
                if after is not None:
                    shape, now = candidate, after
        if now is before:
            break
    return shape, now.float().mean()


@torch.no_grad()
def uap_hc(problem: Problem, options: UAPHC, crafted: dict[str, Tensor]) -> Tensor:
    x_adv, y = problem.x.clone(), torch.as_tensor(problem.y)
    for c in y.unique().tolist():
        if f"perturbation_{c}" not in crafted:
            known = sorted(
                int(k.removeprefix("perturbation_")) for k in crafted if k.startswith("perturbation_")
            )
            raise UserError(
                f"uap_hc has no perturbation for class {c}: it was crafted on samples of the classes "
                f"{known}. Craft it on samples of every class."
            )
        rows = (y == c).nonzero().squeeze(1)
        x_adv[rows] = Shape(crafted[f"perturbation_{c}"], crafted[f"radius_{c}"].to(problem.x)).on(
            problem.rows(rows)
        )
    return x_adv
