r"""Attacks that are robust to transforms between the file and the model (EOT). Athalye et al. 2018,
https://arxiv.org/abs/1707.07397:

    gradient of  E_t [ L( f( t(x_adv) ) ) ]    as the mean over draws of t (EOT)

`through` names transforms (components of limen/defenses) that the search applies in front of the model, in
this order; `draws` is the number of random draws that a gradient averages. Success is judged on the model
without them and, on request, under fresh draws of the transforms (`over_the_air`).
"""

import copy
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from limen.core import seeds
from limen.core.components import spec_of
from limen.core.options import Options
from limen.core.types import Batch
from limen.defenses.base.compose import defended
from limen.goals.base.goal import Goal
from limen.models.base.model import Model, evaluating

Transform = Annotated[str | dict[str, Any], spec_of("defenses")]


class OverTheAir(Options):
    """Evaluation under fresh random draws of transforms."""

    through: list[Transform] = Field(min_length=1)
    """Transforms in the order in which they are applied, each {name: room, ...its options}."""
    draws: int = Field(default=20, ge=1)
    """Fresh draws under which each sample is evaluated."""


def seen_by_search(model: Model, transforms: list[Any], draws: int | None) -> Model:
    """The model behind the transforms of an attack; a gradient averages `draws` of their draws."""
    seen = defended(model, transforms)
    if draws is not None and seen.draws != draws:
        seen = copy.copy(seen)  # shares the weights
        seen.draws = draws
    return seen


@torch.no_grad()
def over_the_air(
    model: Model, batch: Batch, x: Tensor, goal: Goal, options: OverTheAir, *, seed: int = 0
) -> Tensor:
    """(B,) the share of fresh draws in which x, clean or adversarial, reaches the goal. The draws do not
    depend on x."""
    physical = defended(model, options.through)
    streams = seeds.generators(seed, batch.ids, "over_the_air")
    with evaluating(physical):
        votes = [goal.judged(physical(x, batch.lengths, streams)).double() for _ in range(options.draws)]
    return torch.stack(votes).mean(0)
