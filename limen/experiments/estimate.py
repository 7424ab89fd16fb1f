"""Estimated time of a run: each cell is run on a few samples, with the threads of the run, and its time is
extrapolated to all samples.

A trial run is the cell's task on its first samples, with attack, early stopping, evaluation, metrics and
audits. The time of a batch of n samples is modelled as a + b n, fitted to one sample and to several. Cells
that take too long for this, and perturbations or weights computed on other samples, are estimated from the
time of a gradient and the number of gradients; their range is wide, since searches may stop early.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from limen.attacks.engine.run import Attack
from limen.attacks.engine.threads import in_threads
from limen.core.components import Component
from limen.core.types import Batch
from limen.experiments.cell_factory import CellFactory
from limen.experiments.needs import gradients_per_sample
from limen.experiments.plan import PlannedCell
from limen.models.base.model import evaluating
from limen.tasks.base.cell import Cell
from limen.tasks.base.task import parse_task

MOST_SECONDS = 2.0
"""Trial runs that are expected to take longer are skipped."""
ALL_SECONDS = 60.0
"""After this time in trial runs, a cell that differs from an earlier one only in its sweep takes its
estimate."""
MOST_SAMPLES = 16
"""Samples of the second trial run."""
NOISE = (0.75, 1.5)
"""Range of a time in the run relative to the measured time: jobs share caches and cores."""
EARLY = 0.1
"""Least share of its gradients that a search with early stopping computes."""
REPORT = (1.0, 3.0)
"""Range of the seconds that the report takes; each cell adds a twentieth of them."""


@dataclass(frozen=True)
class Span:
    """Range of seconds."""

    low: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        return Span(self.low + other.low, self.high + other.high)

    def times(self, low: float, high: float | None = None) -> "Span":
        return Span(self.low * low, self.high * (low if high is None else high))

    def __str__(self) -> str:
        low, high = _rounded(self.low), _rounded(self.high)
        unit, name = next(
            (u, n)
            for u, n in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))
            if high >= 2 * u or u == 1
        )
        number = lambda seconds: f"{_rounded(seconds / unit):g}"
        first, last = number(low), number(high)
        if low < unit and unit > 1:  # 40 s to 3 min
            return f"{Span(low, low)} to {last} {name}"
        return f"{last} {name}" if first == last else f"{first} to {last} {name}"


NOTHING = Span(0.0, 0.0)


def _rounded(value: float) -> float:
    """Rounded to two digits, but to tenths below 10."""
    if value <= 0:
        return 0.0
    return round(
        value, max(-1, 0 if value >= 10 else 1) if value < 100 else 1 - math.floor(math.log10(value))
    )


def samples_of(cell: PlannedCell, factory: CellFactory) -> int:
    """Number of samples that the cell's task evaluates."""
    model = factory.model(cell.spec["net"]["model"])
    n = len(factory.data(cell.spec["net"]["data"], model))
    return min(n, parse_task(cell.spec["task"])[1].at_most(model) or n)


@dataclass
class Estimate:
    """Estimates the cells of a plan one after the other; remembers what they share."""

    factory: CellFactory
    spent: float = 0.0
    """Seconds that all trial runs took."""
    opened: float = 0.0
    """Seconds to open nets and data and make a first pass, as every job does at its start."""

    def __post_init__(self) -> None:
        self._known: dict[str, Span] = {}
        self._ready: set[str] = set()
        self._crafted: set[str] = set()

    def seconds(self, cell: PlannedCell) -> Span:
        """Time of the cell in one job."""
        key = json.dumps(
            [cell.spec[k] for k in ("task", "net", "defense")] + [cell.labels["attack"]], sort_keys=True
        )
        if self.spent > ALL_SECONDS and key in self._known:
            return self._known[key]
        start = time.perf_counter()
        self.opened += self._warm_up(cell)
        with tempfile.TemporaryDirectory() as folder:
            self._known[key] = self._estimated(cell, Path(folder))
        self.spent += time.perf_counter() - start
        return self._known[key]

    def _estimated(self, planned: PlannedCell, folder: Path) -> Span:
        ready, n = self.factory.cell(planned, folder), samples_of(planned, self.factory)
        ready = replace(ready, crafted=None)
        task, options = parse_task(planned.spec["task"])
        calls = gradients_per_sample(planned.spec)
        if options.trains:
            return self._trained(ready, task, options, n)
        if ready.attack is not None and ready.attack.universal:
            return self._universal(planned, ready, n)

        def trial(k: int) -> float:
            few = options.limited(k, ready.model)
            return timed(
                lambda: task.function(replace(ready, batch_size=min(self.factory.batch_size, k)), few)
            )

        if ready.attack and calls * self._gradient(ready, 1).low > MOST_SECONDS:
            return self._gradient(ready, n).times(calls * EARLY, calls) + self._plain(ready, n)
        one = trial(1)
        k = min(n, MOST_SAMPLES, max(1, int(MOST_SECONDS / max(one, 1e-3))))
        several = trial(k) if k > 1 else one
        each = max((several - one) / (k - 1), 0.0) if k > 1 else one
        batches = math.ceil(n / self.factory.batch_size)
        expected = batches * max(one - each, 0.0) + each * n
        return Span(expected * NOISE[0], max(expected, min(several / k * n, 2 * expected)) * NOISE[1])

    def _warm_up(self, planned: PlannedCell) -> float:
        """Seconds to open a net and its data and make a first pass, which is slower than later ones."""
        key = json.dumps([planned.spec["net"], planned.spec["defense"]], sort_keys=True)
        if key in self._ready:
            return 0.0
        self._ready.add(key)
        return timed(lambda: self._plain(self.factory.cell(planned, Path()), 2))

    def _gradient(self, cell: Cell, n: int) -> Span:
        """Range of the seconds of one gradient of n samples, in the batches of the run."""
        k = min(n, self.factory.batch_size)
        batch = _first(cell, k)
        attack = cell.attack or Attack.parse("pgd")
        with torch.no_grad(), evaluating(cell.attacked_model):
            problem = attack.pose(cell.attacked_model, batch, seed=cell.seed)
            search = lambda part: part.gradient(part.x, confirm=False)[0]
            times = [timed(lambda: in_threads(problem, search))]
            while len(times) < 5 and sum(times) < MOST_SECONDS / 2:
                times.append(timed(lambda: in_threads(problem, search)))
        best = times[1:] or times
        return Span(min(best), max(best)).times(n / len(batch))

    def _plain(self, cell: Cell, n: int) -> Span:
        """Time to evaluate and measure n samples, without an attack."""
        batch = _first(cell, 2 if n > 1 else 1)
        clean = replace(cell, attack=None)
        return _around(timed(lambda: clean.rows(clean.samples(batch)[0])) * n / len(batch))

    def _universal(self, planned: PlannedCell, cell: Cell, n: int) -> Span:
        """Time of a universal perturbation: crafted once for all cells that share it, then added."""
        assert cell.attack is not None
        options = cell.attack.spec.options
        key = json.dumps([planned.spec[k] for k in ("net", "defense", "attack")], sort_keys=True)
        craft = NOTHING
        if key not in self._crafted:
            self._crafted.add(key)
            count = len(cell.training(options.crafting_samples))
            steps = options.crafting_cost()
            craft = self._gradient(cell, count).times(steps * EARLY, steps)
        return craft + self._gradient(cell, n) + self._plain(cell, n)

    def _trained(self, cell: Cell, task: Component, options: Any, n: int) -> Span:
        """Time of a training, from trial runs of one and two epochs, or from the time of a gradient if an
        epoch takes too long."""
        count = len(cell.training(cell.limit))
        early = EARLY if options.patience else 1.0
        gradient = self._gradient(cell, min(count, 4 * self.factory.batch_size)).times(
            max(1.0, count / (4 * self.factory.batch_size))
        )
        if gradient.low > MOST_SECONDS:
            return gradient.times(options.epochs * min(early, NOISE[0]), options.epochs * 2) + self._plain(
                cell, n
            )

        def trial(epochs: int) -> float:
            folder = cell.folder / str(epochs)  # a folder of its own: training resumes from a checkpoint
            folder.mkdir()
            return timed(
                lambda: task.function(
                    replace(cell, folder=folder), options.model_copy(update={"epochs": epochs})
                )
            )

        one = trial(1)
        each = trial(2) - one
        each = each if each > 0 else one
        return Span(
            (one + (early * options.epochs - 1) * each) * NOISE[0],
            (one + (options.epochs - 1) * each) * NOISE[1],
        )


def total(cells: Sequence[Span], jobs: int, start: float) -> Span:
    """Time of a run: `start` seconds until a job is ready, the cells in parallel, and the report."""
    jobs = max(1, min(jobs, len(cells)))
    parallel = lambda values: max(sum(values) / jobs, max(values, default=0.0))
    report = Span(*REPORT) + Span(*REPORT).times(len(cells) / 20)
    return (
        Span(parallel([c.low for c in cells]), parallel([c.high for c in cells]))
        + report
        + Span(start, 3 * start)
    )


def threads_of(jobs: int) -> int:
    """Threads of each job."""
    return max(1, (os.cpu_count() or 1) // jobs)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _around(seconds: float) -> Span:
    return Span(seconds * NOISE[0], seconds * NOISE[1])


def _first(cell: Cell, n: int) -> Batch:
    return next(replace(cell, batch_size=n).batches(n))
