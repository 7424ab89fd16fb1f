"""Plan -> run folder: each cell is computed by an engine, written atomically, and may fail alone."""

import json
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from limen.budgets.families.options import budget_info
from limen.core.atomic import naming_file
from limen.core.components import parse
from limen.core.errors import UserError, raise_all
from limen.core.interrupts import single_interrupt
from limen.experiments.cell_factory import CellFactory
from limen.experiments.engines.base.pool import Pool, Watcher
from limen.experiments.estimate import samples_of
from limen.experiments.file import Experiment
from limen.experiments.folder import close_run, drop_unfinished, finish_cell, is_done, start_cell
from limen.experiments.needs import gradients_per_sample, needs_of
from limen.experiments.plan import PlannedCell, plan
from limen.experiments.sessions import open_run
from limen.metrics.base.apply import Metric
from limen.tasks.base.cell import Cell, Outcome


class Progress(Watcher, Protocol):
    """Progress display of a run."""

    def begin(self, total: float) -> None: ...


class Quiet:
    """No progress display."""

    def begin(self, total: float) -> None: ...
    def cell(self, number: int, count: int, words: str) -> None: ...
    def advance(self, units: float) -> None: ...
    def say(self, text: str) -> None: ...


def run_cell(cell: PlannedCell, factory: CellFactory, watcher: Watcher, *, run: Path, safe_mode: bool) -> str:
    """Compute one cell and move it into the run folder; returns a line for the log.

    The results depend on `cell.spec` alone: `order`, `labels` and `variable` describe it (the label of the
    net also names it in messages and in the task transfer), and `factory` holds what other cells with the
    same specs opened. So any process that sees the run folder can compute any cell. Without `safe_mode` an
    error is raised, with it recorded as the cell's result."""
    start, description = time.perf_counter(), cell.description
    folder = start_cell(run, cell)
    metrics: list[Metric] = []
    error_text = ""
    try:
        ready = factory.cell(cell, folder)
        work = gradients_per_sample(cell.spec)
        ready.advance = lambda samples: watcher.advance(samples * work)
        ready.say, metrics = watcher.say, ready.metrics
        task, options = parse("tasks", cell.spec["task"])
        outcome = task.function(ready, options)
        facts = _facts(ready)
        if ready.data.skipped:
            watcher.say(
                f"{len(ready.data.skipped)} files of {ready.data.name} were skipped, the first: "
                f"{ready.data.skipped[0]}"
            )
    except Exception as error:
        if not safe_mode:
            raise
        watcher.say(f"failed (error recorded): {description}: {error}")
        error_text = f": {error}" if isinstance(error, UserError) else f":\n{traceback.format_exc()}"
        facts, outcome = (
            {"status": "failed", "error": f"{type(error).__name__}: {error}", "kind": None},
            Outcome(),
        )
    seconds = time.perf_counter() - start
    finish_cell(run, cell, folder, {**facts, "seconds": seconds}, outcome, metrics)
    status = f"{facts['status']} in {seconds:.1f} s, {len(outcome.rows)} rows{error_text}"
    return f"cell {cell.id} ({description}) {status}"


def _facts(cell: Cell) -> dict[str, Any]:
    """Entries of cell.json that the report needs beyond the spec."""
    return {
        "status": "done",
        "error": None,
        "kind": cell.data.kind,
        "output": cell.model.output,
        "classes": cell.model.classes,
        "rate_hz": cell.data.rate_hz,
        "skipped": cell.data.skipped,
        "random": cell.victim.random,
        "draws": (cell.attack and cell.attack.spec.draws) or cell.victim.draws,
        "stored_as": cell.store,
        "parameters": sum(p.numel() for p in cell.model.parameters()),
        "attack_info": cell.attack and cell.attack.spec.facts(),
        "budget_info": budget_info(cell.attack.spec.budget if cell.attack else None),
    }


def check_cells(cells: Sequence[PlannedCell], factory: CellFactory, watcher: Watcher) -> dict[str, int | str]:
    """Open the models and data of each cell and try them on two samples. Gives, by the id of the cell, its
    number of samples or the message of what does not fit."""
    results: dict[str, int | str] = {}
    for cell in cells:
        try:
            factory.cell(cell, Path())
            results[cell.id] = samples_of(cell, factory)
        except UserError as error:
            results[cell.id] = str(error)
    return results


@single_interrupt()
def run(
    experiment: Experiment,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    jobs: int = 1,
    engine: str = "processes",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run every cell that is not finished yet and return the summary of the run.

    This process opens no model and no data set: an engine computes the cells, `jobs` at a time. A single job
    is computed inline.
    """
    progress = progress or Quiet()
    cells = plan(experiment)
    with open_run(experiment, folder, resume, progress.say):
        todo = [cell for cell in cells if not is_done(folder, cell, progress.say)]
        _log(folder, f"{len(cells)} cells, {len(cells) - len(todo)} done before")
        parse("engines", {"name": engine})  # an unknown name is an error with one job, too
        jobs = max(1, min(jobs, len(todo)))
        cells_mb = [needs_of(cell.spec, experiment.batch_size).memory_mb for cell in todo]
        component, options = parse(
            "engines", {"name": engine if jobs > 1 else "inline", "jobs": jobs, "cells_mb": cells_mb}
        )
        prepare = partial(CellFactory, torch.device(device), experiment.batch_size, folder / "crafted")
        compute = partial(run_cell, run=folder, safe_mode=experiment.safe_mode)
        try:
            with component.function(prepare, progress, options) as pool:
                progress.begin(_check_all(todo, pool, experiment.safe_mode))
                for line in pool.map(compute, todo, [cell.description for cell in todo]):
                    _log(folder, line)
        except BaseException:
            drop_unfinished(folder, todo)
            raise
        return close_run(folder, experiment, cells)


def _check_all(cells: Sequence[PlannedCell], pool: Pool, safe_mode: bool) -> float:
    """Check all cells before the first is computed; returns their work in gradients. In safe mode a cell that
    fails here is recorded when it is computed."""
    groups: dict[str, list[PlannedCell]] = {}
    for cell in cells:  # cells that share models are checked together, so each model is opened once
        attack = cell.spec["attack"] or {}
        key = [cell.spec["net"], cell.spec["defense"], attack.get("surrogate")]
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(cell)
    samples: dict[str, int | str] = {}
    for results in pool.map(check_cells, list(groups.values())):
        samples |= results
    if not safe_mode:
        raise_all(str(found) for cell in cells if isinstance(found := samples[cell.id], str))
    return sum(
        n * gradients_per_sample(cell.spec) for cell in cells if isinstance(n := samples[cell.id], int)
    )


def _log(folder: Path, text: str) -> None:
    path = folder / "log.txt"
    with naming_file(path), path.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
