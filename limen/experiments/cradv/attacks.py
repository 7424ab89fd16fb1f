"""CrAdv's attacks as goal x budget x search, in normalised space.

`eps` and `alpha` are in normalised units, `max_2_norm` and `dissimilarity` in [0, 1] units, as in CrAdv.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.spec import AttackSpec
from limen.budgets.families.balls import LinfBall, expand
from limen.core import seeds
from limen.core.components import parse
from limen.core.types import Batch
from limen.experiments.cradv import as_published, plan, schema
from limen.experiments.cradv.nets import Space, View
from limen.experiments.cradv.schema import CradvPart
from limen.goals.base.goal import GoalContext
from limen.models.base.model import evaluating


@dataclass(frozen=True)
class Size(LinfBall):
    """Sign steps of length `radius`. The change is bounded by `radius` or, if given, by the Euclidean `limit`
    in [0, 1] units instead: CrAdv uses one of the two."""

    std: Tensor = field(default_factory=lambda: torch.ones(1))
    limit: Tensor | None = None
    """(B,), in [0, 1] units."""

    def norm(self, delta: Tensor) -> Tensor:
        return super().norm(delta) if self.limit is None else (delta * self.std).flatten(1).norm(dim=1)

    def project(self, delta: Tensor) -> Tensor:
        if self.limit is None:
            return super().project(delta)
        return delta * expand(
            (self.limit / self.norm(delta).clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1), delta
        )

    def fill(self, delta: Tensor) -> Tensor:
        """Noise in [-1, 1] -> eps times it, or of exactly the Euclidean limit."""
        if self.limit is None:
            return delta * expand(self.radius, delta)
        return delta * expand(self.limit / self.norm(delta).clamp_min(torch.finfo(delta.dtype).tiny), delta)

    def rows(self, index: Tensor) -> "Size":
        return replace(
            self, radius=self.radius[index], limit=None if self.limit is None else self.limit[index]
        )


@dataclass(frozen=True)
class Search:
    """CrAdv's parameters as one of Limen's attacks with options, a goal and a size."""

    name: str
    options: dict[str, Any]
    goal: dict[str, Any]
    radius: float | None = None
    """Radius of the Size; None with `limited` false: no budget."""
    limited: bool = False


LABEL = {"name": "untargeted", "away_from": "label"}
FROM_PREDICTION = {"name": "untargeted", "away_from": "prediction"}
LEAST_LIKELY = {"name": "target_class", "target": "least_likely"}


def _fgsm(p: schema.Fgsm) -> Search:
    if p.eps is not None:
        return Search("fgsm", {}, FROM_PREDICTION, p.eps)
    # exact decimals: a thousand additions of 0.001 do not end at 1
    low, high, step = (Decimal(str(v)) for v in (p.try_eps_min, p.try_eps_max, p.try_eps_step))
    low = low or step
    count = max(0, int((high - low) / step)) + 1
    last = low + (count - 1) * step
    # until the prediction differs from the label, as in CrAdv; misclassified samples are not changed
    return Search(
        "fgsm", {"search": count, "search_from": float(low / last)} if count > 1 else {}, LABEL, float(last)
    )


def _i_fgsm(p: schema.IFgsm) -> Search:
    alpha = max(p.alpha or 1.25 * p.eps / p.iterations, p.min_alpha or 0)
    options = {"steps": p.iterations, "early_stop": False}
    goal = LEAST_LIKELY if p.least_likely else LABEL
    if p.max_2_norm or p.dissimilarity:
        return Search("bim", options | {"step_size": 1.0}, goal, alpha, limited=True)
    return Search("bim", options | {"step_size": alpha / p.eps if p.eps else 0.0}, goal, p.eps)


def _mi_fgsm(p: schema.MiFgsm) -> Search:
    options = {"steps": p.iterations, "decay": p.decay_factor, "early_stop": False}
    if p.max_2_norm:
        return Search("mi_fgsm", options | {"step_size": 1.0}, LABEL, p.eps / p.iterations, limited=True)
    return Search("mi_fgsm", options, LABEL, p.eps)


def _deepfool(p: schema.DeepFool) -> Search:
    options = {"steps": p.max_iter, "overshoot": p.eps, "k_classes": p.k_classes, "nearer": 0, "refine": 6}
    return Search("deepfool", options, LABEL, limited=bool(p.max_2_norm or p.dissimilarity))


def _carlini_wagner(p: schema.CarliniWagner) -> Search:
    options = {
        "steps": p.max_iterations,
        "search_steps": 1 if p.c_const else p.bin_search_steps,
        "c_init": p.c_const or p.c_init,
        "learning_rate": p.learning_rate,
        "confidence": p.confidence,
        "abort_early": p.abort_early,
    }
    if p.target_class is None:
        return Search("cw_l2", options, LABEL)
    if p.target_class == "least_likely":
        return Search("cw_l2", options, LEAST_LIKELY)
    among = [int(c) for c in p.random_classes.split()] if p.random_classes else None
    return Search("cw_l2", options, {"name": "target_class", "target": "random", "among": among})


def _random_noise(p: schema.RandomNoise) -> Search:
    return Search("random_noise", {}, LABEL, p.eps, limited=bool(p.max_2_norm or p.dissimilarity))


def _adversarial_sticker(p: schema.AdversarialSticker) -> Search:
    # CrAdv's sticker has 300 pixels and is scaled to 0.2 to 0.3 of that on pictures of 224 pixels; at_once 1
    # takes the pictures in its order
    options = {
        "base_image": p.base_img_path,
        "sticker": p.adv_sticker_path,
        "save_path": None if p.adv_sticker_path else p.save_path,
        "limit_samples": p.limit_samples or sys.maxsize,
        "transforms_per_img": p.transforms_per_img,
        "iter_per_img": p.iter_per_img,
        "alpha": p.alpha,
        "decay_factor": p.decay_factor,
        "gradient_noise": p.gradient_noise,
        "random_noise": p.random_noise,
        "resolution": 300,
        "min_scale": 60 / 224,
        "max_scale": 90 / 224,
        "at_once": 1,
    }
    return Search(
        "patch", options, LABEL if p.adv_target is None else {"name": "target_class", "target": p.adv_target}
    )


SEARCHES: dict[str, Callable[[Any], Search]] = {
    "fgsm": _fgsm,
    "i_fgsm": _i_fgsm,
    "mi_fgsm": _mi_fgsm,
    "deepfool": _deepfool,
    "carlini_wagner": _carlini_wagner,
    "random_noise": _random_noise,
    "adversarial_sticker": _adversarial_sticker,
}


def craft(attack: plan.Attack, seen: View, space: Space, batch: Batch, seed: int) -> dict[str, Tensor]:
    """The result of a universal attack on the batch, which `adversarial` applies to other batches."""
    search = SEARCHES[attack.name](attack.params)
    options = AttackSpec.parse({"name": search.name, **search.options}).options
    with torch.no_grad(), evaluating(seen):
        return options.craft(_problem(attack, search, seen, space, batch, seed))


def adversarial(
    attack: plan.Attack,
    seen: View,
    space: Space,
    batch: Batch,
    seed: int,
    crafted: dict[str, Tensor] | None = None,
    exact: bool = False,
) -> Tensor:
    """The normalised batch after the attack on `seen`; `exact`: by CrAdv's own search."""
    if exact and attack.name in as_published.SEARCHES:
        search = Search(attack.name, {}, FROM_PREDICTION if attack.name == "fgsm" else LABEL)
        with torch.no_grad(), evaluating(seen):
            return as_published.SEARCHES[attack.name](
                _problem(attack, search, seen, space, batch, seed), attack.params, space
            )
    search = SEARCHES[attack.name](attack.params)
    if search.radius == 0 and not search.limited:
        return batch.x.clone()
    component, options = parse("attacks", {"name": search.name, **search.options})
    with torch.no_grad(), evaluating(seen):
        problem = _problem(attack, search, seen, space, batch, seed)
        return component.function(problem, options, *([] if crafted is None else [crafted]))


def _problem(
    attack: plan.Attack, search: Search, seen: View, space: Space, batch: Batch, seed: int
) -> Problem:
    goal, options = parse("goals", search.goal)
    clean = seen(batch.x, None, seeds.generators(seed, batch.ids, "clean"))
    context = GoalContext(batch.y, clean, seeds.generators(seed, batch.ids, "goal"))
    return Problem(
        seen,
        batch.x,
        goal.function(context, options),
        _size(search, attack.params, space, batch),
        seeds.generators(seed, batch.ids, "attack", attack.name),
        *space.bounds,
        y=batch.y,
    )


def _size(search: Search, params: CradvPart, space: Space, batch: Batch) -> Size | None:
    if search.radius is None and not search.limited:
        return None
    radius, limit = batch.x.new_full((len(batch),), search.radius or 0.0), None
    if search.limited:
        norm = getattr(params, "max_2_norm", None)  # CrAdv prefers it if both are given
        size: Any = params
        relative = lambda: size.dissimilarity * space.pixels(batch.x).flatten(1).norm(dim=1)
        limit = torch.full_like(radius, norm) if norm else relative()
    return Size(radius, space.std, limit)
