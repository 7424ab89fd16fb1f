"""Runs an attack (goal x budget x search) and evaluates its result.

One success flag per sample, from a fresh forward pass on the exact tensor that is stored; unchanged samples
reuse the clean forward pass.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Event
from typing import Any, get_args

import torch
from torch import Tensor

from limen.attacks.engine.forward import CleanPass, FullPath, forward_pass
from limen.attacks.engine.physical import seen_by_search
from limen.attacks.engine.precision import prepared
from limen.attacks.engine.problem import NO_BUDGET, Calls, Problem, Watch, searched
from limen.attacks.engine.spec import AttackSpec
from limen.attacks.engine.storage import Store, stored
from limen.attacks.engine.threads import in_threads
from limen.budgets.families.budget import Budget, BudgetContext
from limen.budgets.families.options import make_budget
from limen.core import seeds
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.types import BOUNDS, Batch, Kind, Outputs, answers_of, select
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import make_goal
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model, check_samples, evaluating


@dataclass
class Attacked:
    """Result of an attack: the stored samples, the model's outputs, and the goal that judges them."""

    x_adv: Tensor
    reached: Tensor
    """(B,) bool: the goal holds for x_adv as stored, whether or not it held before."""
    clean: Outputs
    adversarial: Outputs
    goal: Goal
    calls: Calls
    notes: dict[str, list[Any]]
    """Columns that the goal adds: name -> one value per sample."""
    batch: Batch
    """The clean samples."""
    rate_hz: int | None
    """Sample rate of clips, if the attacked model has one."""
    classes: list[str] | None
    """Names of the classes; None of a recogniser."""

    @cached_property
    @torch.no_grad()
    def already(self) -> Tensor:
        """(B,) bool: the goal holds for the clean samples."""
        return self.goal.judged(self.clean)

    @property
    def success(self) -> Tensor:
        """(B,) bool: the goal is reached now and was not before the attack."""
        return credited(self.reached, self.already)

    @property
    def success_rate(self) -> float:
        """Share of successes among the samples that were not at the goal before; NaN if there are none."""
        return int(self.success.sum()) / left if (left := int((~self.already).sum())) else math.nan


def stored_as(store: str, kind: Kind) -> Store:
    """Storage format; "auto" is 16-bit for clips and unrounded for pictures."""
    forms = ("auto", *get_args(Store))
    if store not in forms:
        raise UserError(f"Samples are stored as {', '.join(forms)}; got {store!r}.")
    return ("int16" if kind == "clip" else "float") if store == "auto" else store  # type: ignore[return-value]


def credited(reached: Tensor, already: Tensor) -> Tensor:
    """(B,) bool: the goal holds now and did not hold before. A sample that was misclassified anyway is no
    success of the attack."""
    return reached & ~already


class Attack:
    """A configured attack. A universal attack keeps its crafted perturbation."""

    def __init__(self, spec: AttackSpec):
        self.spec = spec
        self.crafted: dict[str, Tensor] | None = None
        """The perturbation of a universal attack, tensors by name; None before `craft`."""

    @classmethod
    def parse(cls, spec: Any) -> "Attack":
        """{"name": "pgd", "steps": 40, "goal": {"name": "untargeted"}, "budget": {"name": "linf", "eps":
        0.03}}."""
        return cls(AttackSpec.parse(spec))

    def under(self, budget: str | Mapping[str, Any]) -> "Attack":
        """The same search for the same goal under another budget."""
        return Attack(self.spec.model_copy(update={"budget": parse("budgets", budget)}))

    @property
    def universal(self) -> bool:
        """True if the attack must first be crafted on other samples."""
        return self.spec.options.universal

    def _check_budget(self) -> None:
        if self.spec.budget is None and self.spec.options.needs_budget:
            raise UserError(f"The attack {self.spec.name} {NO_BUDGET}")

    def pose(
        self,
        model: Model,
        batch: Batch,
        *,
        seed: int = 0,
        clean: Outputs | None = None,
        store: Store = "float",
        bounds: tuple[Tensor | float, Tensor | float] | None = None,
    ) -> Problem:
        """The problem that the search solves."""
        if clean is None:
            with torch.no_grad(), evaluating(model):
                clean = forward_pass(
                    model, batch.x, batch.lengths, seeds.generators(seed, batch.ids, "clean")
                )
        fast = model.for_attack
        seen, x = prepared(fast, batch.x, self.spec.precision)
        streams = seeds.generators(seed, batch.ids, "goal")
        context = GoalContext(batch.y, answers_of(clean), streams, batch.ids, x, seen)
        goal = make_goal(self.spec.goal, context, model.output)
        low, high = bounds or BOUNDS[batch.kind]
        around = partial(self.budget_around, model=model, batch=batch, seed=seed, bounds=bounds)
        through = partial(seen_by_search, transforms=self.spec.through, draws=self.spec.draws)
        asks = goal.view(through(seen))
        rows_as_stored = partial(self._stored_rows, batch, store, around)
        full = None if fast is model else FullPath(goal.view(through(model)), rows_as_stored)
        return Problem(
            asks,
            x,
            goal,
            around(x),
            seeds.generators(seed, batch.ids, "attack", self.spec.name),
            low,
            high,
            y=batch.y,
            lengths=batch.lengths,
            ids=batch.ids,
            full=full,
        )

    def budget_around(
        self,
        x: Tensor,
        model: Model,
        batch: Batch,
        seed: int = 0,
        bounds: tuple[Tensor | float, Tensor | float] | None = None,
    ) -> Budget | None:
        """The budget around x: the samples of the batch, in another precision or as a file stores them."""
        if self.spec.budget is None:
            return None
        streams = seeds.generators(seed, batch.ids, "budget")
        return make_budget(
            self.spec.budget,
            BudgetContext(x, batch.kind, batch.lengths, model.rate_hz, batch.ids, streams, model, bounds),
        )

    def _stored_rows(
        self,
        batch: Batch,
        store: Store,
        around: Callable[..., Budget | None],
        x_adv: Tensor,
        index: Tensor,
    ) -> Tensor:
        """Points of a search, in the rows `index`, in the form in which they are stored; their padding may
        have been cut."""
        part = batch.rows(index)
        clean = part.x[..., : x_adv.shape[-1]]
        return stored(x_adv, clean, store, partial(around, batch=part)).to(batch.x.dtype)

    def craft(
        self,
        model: Model,
        batch: Batch,
        *,
        seed: int = 0,
        bounds: tuple[Tensor | float, Tensor | float] | None = None,
    ) -> None:
        """Universal attacks: find the perturbation on these samples. Other attacks do nothing."""
        self._check_budget()
        if self.universal:
            with torch.no_grad(), evaluating(model):
                self.crafted = self.spec.options.craft(self.pose(model, batch, seed=seed, bounds=bounds))

    def __call__(
        self,
        model: Model,
        batch: Batch,
        *,
        seed: int = 0,
        victim: Model | None = None,
        store: Store = "float",
        bounds: tuple[Tensor | float, Tensor | float] | None = None,
        stop: Model | None = None,
        stop_every: int = 1,
    ) -> Attacked:
        """Attack `model`; evaluate on `victim` (the same model unless the attack is transferred or does not
        know the defence).

        With `stop`, this held-out model scores the points of the search every `stop_every` gradients, and the
        point with the best score is the result."""
        victim = victim or model
        self._check_budget()
        check_samples(batch.kind, batch.x, batch.lengths, batch.ids)
        check_range(batch, bounds)
        if self.universal and self.crafted is None:
            raise UserError(
                f"The attack {self.spec.name} is universal: craft its perturbation first, with "
                "craft(model, batch) on other samples."
            )
        with torch.no_grad(), evaluating(model), evaluating(victim), evaluating(stop or victim):
            streams = seeds.generators(seed, batch.ids, "clean")
            kept = (
                CleanPass.of(model, batch.x, batch.lengths, streams)
                if self._starts_clean(model, victim)
                else None
            )
            clean = (
                forward_pass(victim, batch.x, batch.lengths, streams)
                if kept is None or kept.outputs is None
                else kept.outputs.detach()
            )
            problem = self.pose(
                model, batch, seed=seed, clean=clean if victim is model else None, store=store, bounds=bounds
            )
            if problem.model is model and problem.x is batch.x:
                problem.clean = kept
            del kept  # so that the search can free it
            if stop is not None:
                problem.watch = Watch.over(stop, problem.x, batch.x.dtype, stop_every)
            x_adv = self._searched(
                problem, clean if victim is model and stop is None and not self.spec.through else None
            )
            if problem.watch is not None:
                problem.watch.observe(problem, x_adv, last=True)
                x_adv = problem.watch.x
            around = partial(self.budget_around, model=model, batch=batch, seed=seed, bounds=bounds)
            x_adv = stored(x_adv, batch.x, store, around).to(batch.x.dtype)
            adversarial = _answers(victim, batch, x_adv, clean, seeds.generators(seed, batch.ids, "judge"))
            notes = problem.goal.extra_columns(problem.model, x_adv.to(problem.x))
            return Attacked(
                x_adv,
                problem.goal.judged(adversarial),
                clean,
                adversarial,
                problem.goal,
                problem.calls,
                notes,
                batch,
                victim.rate_hz,
                victim.classes,
            )

    def _starts_clean(self, model: Model, victim: Model) -> bool:
        """True if the forward pass over the clean samples can also serve the first gradient of the search."""
        alone = model.output == "class" and not any(isinstance(m, Ensemble) for m in model.modules())
        return (
            self.spec.options.starts_clean
            and victim is model
            and alone
            and not (model.random or model.refuses)
        )

    def _searched(self, problem: Problem, clean: Outputs | None) -> Tensor:
        """The result of the search. Samples that reach the goal unchanged, by the `clean` outputs of a
        classifier, are not searched: this saves passes, and a random start could lose the success."""
        component, options = self.spec.search
        extra = (self.crafted,) if options.universal else ()

        def alone(part: Problem) -> Tensor:
            return component.function(part, options, *extra)

        def search(part: Problem) -> Tensor:
            return alone(part) if options.universal or options.changes_every_sample else searched(part, alone)

        if (
            not isinstance(clean, Tensor)
            or not problem.deterministic
            or options.universal
            or options.continues_after_success
        ):
            return in_threads(problem, search)
        x_adv, left = (
            problem.x.clone(),
            (~problem.goal.reached(clean)).nonzero().squeeze(1).to(problem.x.device),
        )
        if len(left):
            x_adv[left] = in_threads(problem.rows(left), search)
        # a search that rejects its options or samples must do so for any samples, so it runs up to its first
        # call of the model
        else:
            halt = Event()
            halt.set()
            with suppress(CancelledError):
                search(replace(problem, halt=halt))
        return x_adv


def _answers(victim: Model, batch: Batch, x_adv: Tensor, clean: Outputs, streams: seeds.Streams) -> Outputs:
    """The victim's outputs for the stored samples. For unchanged samples of a classifier they are those of
    `clean`."""
    changed = (
        (x_adv - batch.x).flatten(1).abs_().amax(1).nonzero().squeeze(1)
    )  # three times faster than x_adv != batch.x; NaN is not 0
    if victim.random or not isinstance(clean, Tensor) or len(changed) == len(x_adv):
        return forward_pass(victim, x_adv, batch.lengths, streams)
    if not len(changed):
        return clean
    lengths = None if batch.lengths is None else select(batch.lengths, changed)
    answers = forward_pass(victim, select(x_adv, changed), lengths, streams.rows(changed.tolist()))
    assert isinstance(answers, Tensor)
    return clean.index_copy(0, changed.to(clean.device), answers)


def check_range(batch: Batch, bounds: tuple[Tensor | float, Tensor | float] | None) -> None:
    low, high = bounds or BOUNDS[batch.kind]
    # the ends over the batch first: comparing every value takes ten times as long
    if bool((batch.x.amin(0) < low - 1e-6).any()) or bool((batch.x.amax(0) > high + 1e-6).any()):
        ways = {
            "picture": "If x is already normalised, pass raw x and let the model normalise: load_model(net, "
            "mean=..., std=...).",
            "clip": "If it holds 16-bit values, pass x / 32768.",
        }
        raise UserError(
            f"x must be in [{low}, {high}], but spans [{batch.x.min():.3g}, {batch.x.max():.3g}]. "
            f"{ways[batch.kind]}"
        )
