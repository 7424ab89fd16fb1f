r"""The features of a guide picture: inside the network the sample becomes similar to it.
Sabour et al. 2016, https://arxiv.org/abs/1511.05122:

    minimise  || phi(x_adv) - phi(g) ||^2,    phi: the output of a layer for a picture,
        g: the guide, a picture of another class

under any budget (the paper: linf) by any search (the paper: L-BFGS). The loss is minus the distance as a
share of that of the clean picture. A search makes all its steps, or ends at the share `within`. Success means
that the model predicts the class that it predicts for the guide; `guide_distance` in the rows is the share of
the distance that is left, the first of the paper's measures.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from limen.core.components import parse, spec_of
from limen.core.errors import UserError
from limen.core.types import Batch, Outputs
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions
from limen.goals.feature import features_of
from limen.models.base.feature_layers import WithFeatures
from limen.models.base.model import Model, evaluating

PICTURES = 200
"""Pictures that guides are drawn from, unless the data has a limit of its own."""


class Guide(GoalOptions):
    targeted = True
    outputs = ("class",)
    example: ClassVar[dict[str, Any]] = {"data": {"name": "digits"}}

    data: Annotated[dict[str, Any], spec_of("data")]
    """Data set the guides come from, such as {name: digits, split: train}; its first 200 samples unless it
    has a limit."""
    guide: int | Literal["random"] = "random"
    """Class of the guide, or "random": any class but the sample's own. The picture is drawn at random among
    those of the class."""
    id: str | None = None
    """Id of one guide for all samples; null draws one for each."""
    layer: str = ""
    """Name of a module of the network, whose output is compared; "" compares what goes into the last linear
    layer."""
    within: float = Field(default=0.0, ge=0, lt=1)
    """Share of the distance at which the goal is reached, for searches that seek small changes; 0: only the
    end of the search ends it."""


@dataclass(frozen=True)
class GuideGoal(Goal):
    """`reference` holds the classes that the model predicts for the guides."""

    features: Tensor | None = None
    """(B, n) of the guides."""
    first: Tensor | None = None
    """(B,) squared distance of the clean samples."""
    ids: list[str] | None = None
    """Names of the guides."""
    layer: str = ""
    within: float = 0.0

    def view(self, model: Model) -> Model:
        return WithFeatures(model, self.layer)

    def extra_columns(self, model: Model, x_adv: Tensor) -> dict[str, list[Any]]:
        return {"guide": list(self.ids or []), "guide_distance": (-self.loss(model(x_adv))).sqrt().tolist()}

    def loss(self, outputs: Outputs) -> Tensor:
        return -self._distance(features_of(outputs, "guide"))

    def _distance(self, features: Tensor) -> Tensor:
        assert self.features is not None
        assert self.first is not None
        return squared(features, self.features) / self.first

    def reached(self, outputs: Outputs) -> Tensor:
        # the pass over the clean samples gives no features, and no sample starts at its guide
        if self.within == 0 or not hasattr(outputs, "features"):
            return torch.zeros_like(self.reference, dtype=torch.bool)
        return self.margin(outputs) >= 0

    def margin(self, outputs: Outputs) -> Tensor:
        return self.within**2 + self.loss(outputs)

    def score(self, outputs: Outputs) -> Tensor:
        return super().margin(outputs)  # the model that chooses points gives no features


def guide(context: GoalContext, options: Guide) -> Goal:
    x, model = context.x, context.model
    if x is None or model is None or not isinstance(context.y, Tensor) or x.dim() != 4:
        raise UserError(
            "The goal guide needs a classifier of pictures. For a self-supervised encoder of clips use the "
            "goal feature."
        )
    pool = _pool(json.dumps(options.data, sort_keys=True))
    of_each = zip(context.y.tolist(), context.ids, context.generators, strict=True)
    chosen = pool.rows([_draw(pool, label, name, options, g) for label, name, g in of_each])
    shape, own = tuple(chosen.x.shape[1:]), tuple(x.shape[1:])
    if shape != own:
        raise UserError(
            f"goal guide: guides must have the shape of the samples, {own}; got {shape}. Take them from the "
            "same data set."
        )
    shown = WithFeatures(model, options.layer)
    with torch.no_grad(), evaluating(model):
        answers = shown(chosen.x.to(x), None, context.generators)
        features = features_of(answers, "guide").clone()
        first = squared(features_of(shown(x, None, context.generators), "guide"), features)
    return GuideGoal(
        answers.argmax(1),
        targeted=True,
        features=features,
        first=first.clamp_min(torch.finfo(x.dtype).tiny),
        ids=chosen.ids,
        layer=options.layer,
        within=options.within,
    )


def squared(features: Tensor, guides: Tensor) -> Tensor:
    """(B,) squared distances."""
    return (features - guides).square().sum(1)


@cache
def _pool(spec: str) -> Batch:
    """The samples that guides are drawn from, read once."""
    component, options = parse("data", {"limit": PICTURES, **json.loads(spec)})
    return component.function(options).all()


def _draw(pool: Batch, label: int, own_id: str, options: Guide, generator: torch.Generator) -> int:
    """The number of the guide of a sample of class `label`."""
    if options.id is not None:
        if options.id not in pool.ids:
            raise UserError(
                f"goal guide: the data has no sample {options.id!r}. It has {', '.join(pool.ids[:3])}, ..."
            )
        return pool.ids.index(options.id)
    assert isinstance(pool.y, Tensor)
    fits = pool.y != label if options.guide == "random" else pool.y == options.guide
    allowed = [i for i in fits.nonzero().squeeze(1).tolist() if pool.ids[i] != own_id]
    if not allowed:
        raise UserError(
            f"goal guide: among the {len(pool)} samples of the data none can guide a sample of class "
            f"{label}. Name another class, or give the data a larger limit."
        )
    return allowed[int(torch.randint(len(allowed), (1,), generator=generator))]
