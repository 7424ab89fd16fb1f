"""Goal x budget x search, put together and judged.

One success flag per sample, by a fresh forward pass on the exact tensor that is stored; what comes back as it
was has had its pass.
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

from limen.attacks.engine.forward import CleanPass, FullPath, ask
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
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model, check_samples, evaluating


@dataclass
class Attacked:
    """What an attack leaves: the stored samples, what the model says of them, and the goal they were judged
    by."""

    x_adv: Tensor
    reached: Tensor
    """(B,) bool: the goal holds for x_adv as stored, whether or not it held before."""
    clean: Outputs
    adversarial: Outputs
    goal: Goal
    calls: Calls
    notes: dict[str, list[Any]]
    """What the goal says of the samples: column -> one value per sample."""
    batch: Batch
    """The clean samples."""
    rate_hz: int | None
    """Sample rate of clips, if the attacked model says it."""
    classes: list[str] | None
    """Names of the classes; None of a recogniser."""

    @cached_property
    @torch.no_grad()
    def already(self) -> Tensor:
        """(B,) bool: the goal held for the clean samples, before anything was changed."""
        return self.goal.judged(self.clean)

    @property
    def success(self) -> Tensor:
        """(B,) bool: what the attack is credited with, reached now and not before."""
        return credited(self.reached, self.already)

    @property
    def success_rate(self) -> float:
        """Share of the samples that were not at the goal before and are now; NaN if all were there before."""
        return int(self.success.sum()) / left if (left := int((~self.already).sum())) else math.nan


def stored_as(store: str, kind: Kind) -> Store:
    """The form that samples are stored in; "auto" is 16-bit for clips and unrounded for pictures."""
    forms = ("auto", *get_args(Store))
    if store not in forms:
        raise UserError(f"Samples are stored as {', '.join(forms)}; got {store!r}.")
    return ("int16" if kind == "clip" else "float") if store == "auto" else store  # type: ignore[return-value]


def credited(reached: Tensor, already: Tensor) -> Tensor:
    """(B,) bool: the goal holds now and did not hold before. A sample that was wrong anyway is no success of
    the attack."""
    return reached & ~already


class Attack:
    """A configured attack. Universal attacks keep what they crafted."""

    def __init__(self, spec: AttackSpec):
        self.spec = spec
        self.crafted: dict[str, Tensor] | None = None
        """What a universal attack found: tensors by name; None before."""

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
        """The problem a search sees."""
        if clean is None:
            with torch.no_grad(), evaluating(model):
                clean = ask(model, batch.x, batch.lengths, seeds.generators(seed, batch.ids, "clean"))
        fast = model.for_attack
        seen, x = prepared(fast, batch.x, self.spec.precision)
        make_goal, goal_options = self.spec.goal[0].function, self.spec.goal[1]
        goal = make_goal(
            GoalContext(
                batch.y, answers_of(clean), seeds.generators(seed, batch.ids, "goal"), batch.ids, x, seen
            ),
            goal_options,
        )
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
        """Points of a search as they are stored; they are those of the rows `index`, whose padding the search
        may have cut."""
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
        """Universal attacks: find the one perturbation on these samples; other attacks have nothing to do."""
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
        """Attack `model`; judge on `victim` (the same model unless the attack is transferred or does not know
        the defence).

        With `stop`, that model looks on every `stop_every` gradients, and the point of the search that it
        finds best is what is taken."""
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
                ask(victim, batch.x, batch.lengths, streams)
                if kept is None or kept.outputs is None
                else kept.outputs.detach()
            )
            problem = self.pose(
                model, batch, seed=seed, clean=clean if victim is model else None, store=store, bounds=bounds
            )
            if problem.model is model and problem.x is batch.x:
                problem.clean = kept
            del kept  # the search lets go of it when it can
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
            notes = problem.goal.notes(problem.model, x_adv.to(problem.x))
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
        """True if the pass over the clean samples may also give the search its first gradient."""
        alone = model.output == "class" and not any(isinstance(m, Ensemble) for m in model.modules())
        return (
            self.spec.options.starts_clean
            and victim is model
            and alone
            and not (model.random or model.refuses)
        )

    def _searched(self, problem: Problem, clean: Outputs | None) -> Tensor:
        """What the search finds. Samples that reach the goal as they are, by the `clean` answers of a
        classifier, are not searched: that saves the passes, and a random start could lose what is there."""
        component, options = self.spec.search
        extra = (self.crafted,) if options.universal else ()

        def alone(part: Problem) -> Tensor:
            return component.function(part, options, *extra)

        def search(part: Problem) -> Tensor:
            return alone(part) if options.universal or options.changes_every_sample else searched(part, alone)

        if (
            not isinstance(clean, Tensor)
            or not problem.certain
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
        # a search that refuses its options or samples must do so whoever is fooled: it gets as far as its
        # first call of the model
        else:
            halt = Event()
            halt.set()
            with suppress(CancelledError):
                search(replace(problem, halt=halt))
        return x_adv


def _answers(victim: Model, batch: Batch, x_adv: Tensor, clean: Outputs, streams: seeds.Streams) -> Outputs:
    """What the victim says of the stored samples. Of those that came back as they were a classifier has just
    said it, in `clean`."""
    changed = (
        (x_adv - batch.x).flatten(1).abs_().amax(1).nonzero().squeeze(1)
    )  # three times faster than x_adv != batch.x; NaN is not 0
    if victim.random or not isinstance(clean, Tensor) or len(changed) == len(x_adv):
        return ask(victim, x_adv, batch.lengths, streams)
    if not len(changed):
        return clean
    lengths = None if batch.lengths is None else select(batch.lengths, changed)
    answers = ask(victim, select(x_adv, changed), lengths, streams.rows(changed.tolist()))
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
            f"x must lie in [{low}, {high}], but spans [{batch.x.min():.3g}, {batch.x.max():.3g}]. "
            f"{ways[batch.kind]}"
        )
