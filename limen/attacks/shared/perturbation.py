"""One perturbation for many samples: how it is added to them and projected.

The budget of a universal perturbation may differ from sample to sample (an SNR, a peak in dB). The
perturbation is then one shape, scaled to the radius of every sample; with one radius for all, as in the
papers, it is simply added.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem, searched
from limen.attacks.engine.spec import AttackSpec
from limen.attacks.shared.budget_needs import need_norm
from limen.budgets.families.balls import expand
from limen.core.components import Component
from limen.core.errors import UserError
from limen.core.seeds import uniform_like

CHUNK = 64
"""Samples evaluated in one forward pass."""


@dataclass
class Shape:
    """A perturbation (...) at the radius it was made for."""

    v: Tensor
    radius: Tensor
    """A scalar."""

    def on(self, problem: Problem) -> Tensor:
        """The samples with the perturbation, within budget and range; padding is left alone."""
        v = _fitted(self.v.to(problem.x), problem.x.shape[-1])
        delta = v * expand(self._scale(problem), problem.x)
        return problem.project(problem.x + (delta if problem.mask is None else delta * problem.mask))

    def plus(self, problem: Problem, delta: Tensor) -> "Shape":
        """With changes (B, ...) of single samples added, projected to the radius."""
        scale = self._scale(problem)
        total = self.v + (delta / expand(torch.where(scale > 0, scale, 1), delta)).sum(0)
        return Shape(replace(problem.ball, radius=self.radius[None]).project(total[None])[0], self.radius)

    def _scale(self, problem: Problem) -> Tensor:
        return problem.ball.radius / self.radius


def nothing(problem: Problem, who: str) -> Shape:
    """No perturbation yet, at the mean radius of the samples."""
    need_norm(problem, who, "linf", "l2", "l1", "l0")
    return Shape(torch.zeros_like(problem.x[0]), problem.ball.radius.mean())


def shuffled(problem: Problem) -> Tensor:
    """Row numbers in an order that depends on the samples' own streams, not on their order in the batch."""
    return uniform_like(problem.x.flatten(1)[:, :1].double(), problem.generators).squeeze(1).argsort()


def fooled(problem: Problem, shape: Shape, more_than: int = -1) -> Tensor | None:
    """(B,) bool: the samples that the perturbation fools; None as soon as it is certain that there are at
    most `more_than`."""
    parts: list[Tensor] = []
    count = 0
    for chunk in torch.arange(len(problem), device=problem.x.device).split(CHUNK):
        rows = problem.rows(chunk)
        parts.append(rows.reached(shape.on(rows)))
        count += int(parts[-1].sum())
        seen = sum(map(len, parts))
        if count + len(problem) - seen <= more_than:
            return None
    return torch.cat(parts)


def inner_attack(spec: dict[str, Any]) -> tuple[Component, AttackOptions]:
    """An attack on single samples and its options."""
    component, options = AttackSpec.parse_search(spec, "universal attack")
    if options.universal:
        raise UserError(
            f"The inner attack must work on single samples, but {component.name} is universal itself. Use "
            "deepfool, cw_l2 or pgd."
        )
    return component, options


def single(problem: Problem, shape: Shape, inner: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The changes that the inner attack adds to the perturbed samples, and which of them are worth adding."""
    component, options = inner_attack(inner)
    x = shape.on(problem)
    # an attack that seeks the smallest change is of no use where it fails; any other gets the same budget
    # around the perturbed sample, and its change has a useful direction even if it fails
    minimal = options.minimal
    posed = problem.recentred(x, None if minimal else problem.budget)
    x_adv = searched(posed, lambda part: component.function(part, options))
    return x_adv - x, posed.reached(x_adv) if minimal else torch.ones(
        len(x), dtype=torch.bool, device=x.device
    )


def _fitted(v: Tensor, length: int) -> Tensor:
    """Cut or filled with zeros at the end to the length of the samples."""
    return v[..., :length] if v.shape[-1] >= length else torch.nn.functional.pad(v, (0, length - v.shape[-1]))
