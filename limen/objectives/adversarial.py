r"""Adversarial training: the loss on samples changed by an attack, which is computed anew for every batch.

Madry et al. 2018, https://arxiv.org/abs/1706.06083:
    min over theta of E max over d in B(x) of L(theta, x + d, y)
The attack differentiates the model in evaluation mode; the training step is in training mode. The paper's
attack performs all of its steps: {name: pgd, steps: 7, early_stop: false, ...}.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.attacks.engine.spec import AttackSpec
from limen.core.components import spec_of
from limen.core.errors import UserError
from limen.core.types import Batch, Output
from limen.models.base.model import Model, evaluating
from limen.objectives.base.objective import ObjectiveOptions, objective_for


def _one_for_each_batch(spec: dict[str, Any]) -> dict[str, Any]:
    """Validate the spec of an attack that is computed on every batch and on the trained model."""
    try:
        attack = AttackSpec.parse(spec)
    except UserError as error:
        raise ValueError(str(error)) from None
    if attack.options.universal:
        raise ValueError(
            f"the attack {attack.name} is universal: it is computed once, not for each batch. Train on "
            "another one, such as pgd"
        )
    if attack.surrogate is not None:
        raise ValueError("the attack of a training is computed on the trained model: leave out surrogate")
    return spec


class Adversarial(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("class", "transcript")
    example: ClassVar[dict[str, Any]] = {
        "attack": {"name": "pgd", "steps": 2, "early_stop": False, "budget": {"name": "linf", "eps": 0.1}}
    }

    attack: Annotated[dict[str, Any], AfterValidator(_one_for_each_batch)]
    """The attack, with its goal and budget, as in the list `attacks` of an experiment."""
    clean_share: float = Field(default=0.0, ge=0, le=1)
    """Weight of the loss on the unchanged samples; the rest is the weight of the attacked ones."""
    objective: Annotated[dict[str, Any], spec_of("objectives")] | None = None
    """The loss; null takes the default for the model's output."""


def adversarial(
    model: Model, batch: Batch, streams: Sequence[torch.Generator], options: Adversarial
) -> Tensor:
    loss = objective_for(model, options.objective)
    x_adv = attacked(model, batch, streams, Attack.parse(options.attack))
    losses = loss(model, replace(batch, x=x_adv), streams)
    if not options.clean_share:
        return losses
    return options.clean_share * loss(model, batch, streams) + (1 - options.clean_share) * losses


@torch.no_grad()
def attacked(model: Model, batch: Batch, streams: Sequence[torch.Generator], attack: Attack) -> Tensor:
    """The adversarial samples of the attack's search, which draws from these streams; success is not
    judged."""
    with evaluating(model):
        problem = replace(attack.pose(model, batch), generators=streams)
        component, options = attack.spec.search
        return component.function(problem, options).to(batch.x)
