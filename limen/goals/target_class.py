"""A chosen class: a given one, one drawn at random among the wrong ones, or the least likely."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class TargetClass(GoalOptions):
    targeted = True
    outputs = ("class",)

    target: int | Literal["random", "least_likely"] = Field(default="random")
    """Index of the class, or "random" (uniform over the classes that are not the true one), or "least_likely"
    (by the clean output)."""
    among: list[int] | None = None
    """Classes that "random" may draw from; null means all."""


def target_class(context: GoalContext, options: TargetClass) -> Goal:
    logits, y = context.own, context.y
    assert isinstance(logits, Tensor)
    assert isinstance(y, Tensor)
    classes = logits.shape[1]
    if options.target == "least_likely":
        return Goal(logits.argmin(1), targeted=True)
    if options.target == "random":
        pool = range(classes) if options.among is None else options.among
        if any(not 0 <= c < classes for c in pool):
            raise UserError(
                f"goal target_class: among must hold classes from 0 to {classes - 1}; got {options.among}."
            )
        drawn = [
            _draw([c for c in pool if c != int(label)], g)
            for label, g in zip(y, context.generators, strict=True)
        ]
        return Goal(torch.tensor(drawn, device=logits.device), targeted=True)
    if not 0 <= options.target < classes:
        raise UserError(
            f"goal target_class: target must be a class from 0 to {classes - 1}; got {options.target}."
        )
    return Goal(torch.full_like(logits.argmax(1), options.target), targeted=True)


def _draw(pool: list[int], generator: torch.Generator) -> int:
    if not pool:
        raise UserError(
            "goal target_class: among leaves no wrong class to draw from; name at least two classes."
        )
    return pool[int(torch.randint(len(pool), (1,), generator=generator))]
