"""Goal x budget x search, put together and judged.

One success flag per sample, by a fresh forward pass on the exact tensor that is stored.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from limen import seeds
from limen.attacks._problem import Calls, Problem, Watch
from limen.attacks._threads import side_by_side
from limen.components import Component, parse
from limen.errors import UserError
from limen.goals._goal import Asked, Goal
from limen.models._model import Model, check_samples, evaluating
from limen.options import Options
from limen.types import BOUNDS, Batch, Outputs

Store = Literal["float", "int16", "uint8"]
Precision = Literal["auto", "single", "double"]
""""auto": recognisers are searched in double precision, everything else in the precision of the samples."""


@dataclass
class Attacked:
    """What an attack leaves: the stored samples, what the model says of them, and the goal they were judged by."""

    x_adv: Tensor
    success: Tensor
    """(B,) bool, judged on x_adv as stored."""
    clean: Outputs
    adversarial: Outputs
    goal: Goal
    calls: Calls


def quantise(x: Tensor, store: Store) -> Tensor:
    """Round to the grid of the file format: 16-bit audio (steps of 1/32768) or 8-bit pictures (steps of 1/255)."""
    if store == "int16":
        return (x * 32768).round().clamp(-32768, 32767) / 32768
    return (x * 255).round().clamp(0, 255) / 255 if store == "uint8" else x


class Attack:
    """A configured attack. Universal attacks keep what they crafted."""

    def __init__(self, search: Component, options: Options, goal: tuple[Component, Options], budget: tuple[Component, Options] | None,
                 precision: Precision = "auto"):  # fmt: skip
        self.search, self.options, self.goal, self.budget, self.precision = search, options, goal, budget, precision
        self.crafted: Any = None
        """What a universal attack found: tensors by name; None before."""

    @classmethod
    def parse(cls, spec: str | Mapping[str, Any]) -> "Attack":
        """{"name": "pgd", "steps": 40, "goal": {"name": "untargeted"}, "budget": {"name": "linf", "eps": 0.03}}."""
        spec = {"name": spec} if isinstance(spec, str) else dict(spec)
        goal, budget = spec.pop("goal", None) or "untargeted", spec.pop("budget", None)
        precision: Any = spec.pop("precision", None) or "auto"
        if precision not in get_args(Precision):
            raise UserError(f"The precision of a search is auto, single or double, but {precision!r} came.")
        search, options = parse("attacks", spec)
        return cls(search, options, parse("goals", goal), parse("budgets", budget) if budget else None, precision)

    def under(self, budget: str | Mapping[str, Any]) -> "Attack":
        """The same search for the same goal under another budget."""
        return Attack(self.search, self.options, self.goal, parse("budgets", budget), self.precision)

    @property
    def universal(self) -> bool:
        """True if the attack must first be crafted on other samples."""
        return hasattr(self.search.module, "craft")

    def pose(self, model: Model, batch: Batch, *, seed: int = 0, clean: Outputs | None = None,
             bounds: tuple[Tensor | float, Tensor | float] | None = None) -> Problem:  # fmt: skip
        """The problem a search sees."""
        if clean is None:
            with torch.no_grad(), evaluating(model):
                clean = model(batch.x, batch.lengths, seeds.generators(seed, batch.ids, "clean"))
        make_goal, goal_options = self.goal[0].function, self.goal[1]
        goal = make_goal(Asked(batch.y, clean, seeds.generators(seed, batch.ids, "goal"), batch.ids), goal_options)
        x, seen = batch.x, model.for_attack
        if self.precision == "double" or (self.precision == "auto" and model.output == "transcript"):
            # the path of a search on a recogniser multiplies rounding errors, which hang on the size of the batch, a hundred thousand times
            # in 20 steps of single precision; in double, a clip gets alone what it gets beside others
            x, seen = x.double(), doubled(seen)
        budget = self.budget[0].function(x, batch.lengths, self.budget[1]) if self.budget else None
        low, high = bounds or BOUNDS[batch.kind]
        return Problem(seen, x, goal, budget, seeds.generators(seed, batch.ids, "attack", self.search.name), low, high,
                       y=batch.y, lengths=batch.lengths, ids=batch.ids)  # fmt: skip

    def craft(self, model: Model, batch: Batch, *, seed: int = 0, bounds: tuple[Tensor | float, Tensor | float] | None = None) -> None:
        """Universal attacks: find the one perturbation on these samples; other attacks have nothing to do."""
        if self.universal:
            with torch.no_grad(), evaluating(model):
                self.crafted = self.search.module.craft(self.pose(model, batch, seed=seed, bounds=bounds), self.options)

    def __call__(self, model: Model, batch: Batch, *, seed: int = 0, victim: Model | None = None, store: Store = "float",
                 bounds: tuple[Tensor | float, Tensor | float] | None = None, stop: Model | None = None, stop_every: int = 1
                 ) -> Attacked:  # fmt: skip
        """Attack `model`; judge on `victim` (the same model unless the attack is transferred or does not know the defence).

        With `stop`, that model looks on every `stop_every` gradients, and the point of the search that it finds best is what is taken."""
        victim = victim or model
        check_samples(batch.kind, batch.x, batch.lengths, batch.ids)
        check_range(batch, bounds)
        if self.universal and self.crafted is None:
            raise UserError(
                f"The attack {self.search.name} is universal: craft its perturbation first, with craft(model, batch) on other samples."
            )
        with torch.no_grad(), evaluating(model), evaluating(victim), evaluating(stop or victim):
            clean = victim(batch.x, batch.lengths, seeds.generators(seed, batch.ids, "clean"))
            problem = self.pose(model, batch, seed=seed, clean=clean if victim is model else None, bounds=bounds)
            if stop is not None:
                problem.watch = Watch.over(stop, problem.x, batch.x.dtype, stop_every)
            extra = (self.crafted,) if self.universal else ()
            x_adv = side_by_side(problem, lambda part: self.search.function(part, self.options, *extra))
            if problem.watch is not None:
                problem.watch.see(problem, x_adv, last=True)
                x_adv = problem.watch.x
            x_adv = quantise(x_adv, store).to(batch.x.dtype)
            adversarial = victim(x_adv, batch.lengths, seeds.generators(seed, batch.ids, "judge"))
            return Attacked(x_adv, problem.goal.judged(adversarial), clean, adversarial, problem.goal, problem.calls)


_COPIES: WeakKeyDictionary[Model, tuple[list[int], Model]] = WeakKeyDictionary()


def doubled(model: Model) -> Model:
    """A copy in double precision, kept for the next call until the weights change."""
    versions = [p._version for p in model.parameters()]
    kept = _COPIES.get(model)
    if kept is None or kept[0] != versions:
        kept = _COPIES[model] = versions, copy.deepcopy(model).double()
    return kept[1]


def check_range(batch: Batch, bounds: tuple[Tensor | float, Tensor | float] | None) -> None:
    low, high = bounds or BOUNDS[batch.kind]
    if bool((batch.x < low - 1e-6).any()) or bool((batch.x > high + 1e-6).any()):
        raise UserError(f"x must lie in [{low}, {high}], but spans [{batch.x.min():.3g}, {batch.x.max():.3g}]. "
                        "If x is already normalised, pass raw x and wrap the model: Normalized(model, mean, std).")  # fmt: skip
