r"""Attacks that survive what happens between the file and the model. Athalye et al. 2018,
https://arxiv.org/abs/1707.07397:

    gradient of  E_t [ L( f( t(x_adv) ) ) ]    as the mean over draws of t (EOT)

`through` names transforms (components of limen/defenses) that the search sees in front of the model, in the
order in which a sample meets them; `draws` says how many of their draws a gradient averages. Success is
judged on the victim as it is, and, where asked, under fresh draws of the transforms (`over_the_air`).
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
    """Judging under draws that no search has seen."""

    through: list[Transform] = Field(min_length=1)
    """Transforms in the order in which a sample meets them, each {name: room, ...its options}."""
    draws: int = Field(default=20, ge=1)
    """Fresh draws of them under which each sample is judged."""


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
    """(B,) the share of fresh draws in which x, clean or adversarial, reaches the goal. The same draws
    whatever x is."""
    heard = defended(model, options.through)
    streams = seeds.generators(seed, batch.ids, "over_the_air")
    with evaluating(heard):
        votes = [goal.judged(heard(x, batch.lengths, streams)).double() for _ in range(options.draws)]
    return torch.stack(votes).mean(0)
