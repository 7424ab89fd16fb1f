"""Plan -> run folder: one cell after another, each written whole, any of them able to fail alone."""

import hashlib
import json
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from limen.attacks.engine.run import Attack, stored_as
from limen.budgets.families.options import budget_info
from limen.core.atomic import naming_file
from limen.core.components import parse
from limen.core.errors import UserError, raise_all
from limen.core.interrupts import single_interrupt
from limen.data.base.dataset import Dataset
from limen.defenses.base.compose import defended
from limen.experiments.engines.base.pool import Pool, Watcher
from limen.experiments.estimate import gradient_calls, samples_of
from limen.experiments.file import Experiment
from limen.experiments.folder import close_run, done, drop_unfinished, finish_cell, start_cell
from limen.experiments.plan import Planned, plan
from limen.experiments.sessions import opened
from limen.metrics.base.apply import Metric, applicable
from limen.models.base.load import load_model
from limen.models.base.model import Model, check_fits
from limen.models.base.output_check import check_outputs, check_surrogate
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


@dataclass
class CellFactory:
    """Opens models and data once and keeps them for the next cell."""

    device: torch.device
    batch_size: int
    crafted: Path
    """Where universal perturbations are kept for the next cell that needs the same."""
    _models: dict[str, Model] = field(default_factory=dict)
    _defended: dict[str, Model] = field(default_factory=dict)
    _data: dict[str, Dataset] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    """Nets, their defences and surrogates that were tried on their data."""

    def model(self, spec: dict[str, Any]) -> Model:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._models:
            self._models[key] = load_model(spec).to(self.device).eval()
        return self._models[key]

    def defended(self, spec: dict[str, Any], defenses: list[dict[str, Any]] | None) -> Model:
        """The net behind these defences; the net itself without any."""
        if not defenses:
            return self.model(spec)
        key = json.dumps([spec, defenses], sort_keys=True)
        if key not in self._defended:
            self._defended[key] = defended(self.model(spec), defenses)
        return self._defended[key]

    def data(self, spec: dict[str, Any], model: Model) -> Dataset:
        """The data at the model's sample rate."""
        if model.rate_hz is not None and "rate_hz" in spec:
            spec = {**spec, "rate_hz": model.rate_hz}
        key = json.dumps(spec, sort_keys=True)
        if key not in self._data:
            component, options = parse("data", spec)
            data = component.function(options)
            if model.kind == "clip" and data.kind == "clip" and model.rate_hz not in (None, data.rate_hz):
                raise UserError(
                    f"The model takes clips at {model.rate_hz} Hz, but the data {spec['name']} gives "
                    f"{data.rate_hz} Hz and has no option rate_hz."
                )
            self._data[key] = data
        return self._data[key]

    def _check(self, planned: Planned, model: Model, victim: Model, data: Dataset) -> None:
        """Tries the net, the net behind its defence and the models that its attack is computed on, once, on
        two samples."""
        spec = planned.spec
        other = (spec["attack"] or {}).get("surrogate") or {}
        key = json.dumps([spec["net"], spec["defense"], other], sort_keys=True)
        if key in self._checked:
            return
        batch, net = data.first(2).to(self.device), f"The net {planned.labels['net']}"
        check_outputs(model, batch, net)
        check_fits(model, batch, net)
        check_outputs(victim, batch, f"{net} behind the defense {planned.labels['defense']}")
        for one in [*other.get("models", []), *([other["stop"]] if other.get("stop") else [])]:
            check_surrogate(self.model(one), model, batch, data.rate_hz, f"The surrogate {one['name']}", net)
        self._checked.add(key)

    def cell(self, planned: Planned, folder: Path) -> Cell:
        """Everything a task needs."""
        spec = planned.spec
        model = self.model(spec["net"]["model"])
        data = self.data(spec["net"]["data"], model)
        victim = self.defended(spec["net"]["model"], spec["defense"])
        self._check(planned, model, victim, data)
        attack = None if spec["attack"] is None else Attack.parse(spec["attack"])
        other = attack and attack.spec.surrogate
        seen = victim if spec["attack_on_defense"] else model
        part = lambda split, limit: self.data({**spec["net"]["data"], "split": split, "limit": limit}, model)
        sees_defense = spec["defense"] if spec["attack_on_defense"] else None
        data_spec = {k: v for k, v in spec["net"]["data"].items() if k not in ("split", "limit")}
        key = json.dumps(
            [spec["net"]["model"], data_spec, sees_defense, spec["attack"], spec["seed"]], sort_keys=True
        )
        return Cell(
            model=model,
            victim=victim,
            attacked_model=other.attacked_model(self.model) if other else seen,
            stop=self.model(other.stop) if other and other.stop else None,
            stop_every=other.stop_every if other else 1,
            proxy=" + ".join(m["name"] for m in other.models) if other else planned.labels["net"],
            net=spec["net"],
            open=self.model,
            data=data,
            attack=attack,
            metrics=applicable(spec["metrics"], model.kind, model.output, True),
            folder=folder,
            defenses=spec["defense"] or [],
            training=partial(part, "train"),
            validation=partial(part, "valid"),
            limit=spec["net"]["data"].get("limit"),
            seed=spec["seed"],
            store=stored_as(spec["store"], data.kind),
            batch_size=self.batch_size,
            crafted=self.crafted / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.safetensors",
            examples=spec["examples"],
            device=self.device,
        )


def run_cell(cell: Planned, workshop: CellFactory, progress: Watcher, run: Path, safe_mode: bool) -> str:
    """Compute one cell and move it into place; returns a line for the log."""
    begun, words = time.perf_counter(), cell.words
    folder = start_cell(run, cell)
    metrics: list[Metric] = []
    trouble = ""
    try:
        ready = workshop.cell(cell, folder)
        work = gradient_calls(cell.spec)
        ready.advance, ready.say, metrics = (
            (lambda n: progress.advance(n * work)),
            progress.say,
            ready.metrics,
        )
        task, options = parse("tasks", cell.spec["task"])
        outcome = task.function(ready, options)
        facts = _facts(ready)
        if ready.data.skipped:
            progress.say(
                f"{len(ready.data.skipped)} files of {ready.data.name} were skipped, the first: "
                f"{ready.data.skipped[0]}"
            )
    except Exception as error:
        if not safe_mode:
            raise
        progress.say(f"failed and recorded: {words}: {error}")
        trouble = f": {error}" if isinstance(error, UserError) else f":\n{traceback.format_exc()}"
        facts, outcome = (
            {"status": "failed", "error": f"{type(error).__name__}: {error}", "kind": None},
            Outcome(),
        )
    seconds = time.perf_counter() - begun
    finish_cell(run, cell, folder, {**facts, "seconds": seconds}, outcome, metrics)
    return f"cell {cell.id} ({words}) {facts['status']} in {seconds:.1f} s, {len(outcome.rows)} rows{trouble}"


def _facts(cell: Cell) -> dict[str, Any]:
    """What the report must know of a finished cell beyond its spec."""
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


def check_cells(cells: Sequence[Planned], factory: CellFactory, watcher: Watcher) -> list[int | str]:
    """Open the models and data of each cell and try them on two samples: the number of samples of each cell,
    or the message of what does not fit."""
    results: list[int | str] = []
    for cell in cells:
        try:
            factory.cell(cell, Path())
            results.append(samples_of(cell, factory))
        except UserError as error:
            results.append(str(error))
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
    with opened(experiment, folder, resume, progress.say):
        todo = [cell for cell in cells if not done(folder, cell, progress.say)]
        _log(folder, f"{len(cells)} cells, {len(cells) - len(todo)} done before")
        parse("engines", {"name": engine})  # an unknown name is an error with one job, too
        jobs = max(1, min(jobs, len(todo)))
        component, options = parse("engines", {"name": engine if jobs > 1 else "inline", "jobs": jobs})
        prepare = partial(CellFactory, torch.device(device), experiment.batch_size, folder / "crafted")
        compute = partial(run_cell, run=folder, safe_mode=experiment.safe_mode)
        try:
            with component.function(prepare, progress, options) as pool:
                progress.begin(_check_all(todo, pool, experiment.safe_mode))
                for line in pool.map(compute, todo, [cell.words for cell in todo]):
                    _log(folder, line)
        except BaseException:
            drop_unfinished(folder, todo)
            raise
        return close_run(folder, experiment, cells)


def _check_all(cells: Sequence[Planned], pool: Pool, safe_mode: bool) -> float:
    """Check all cells before the first is computed; returns their work in gradients. In safe mode a cell that
    fails here is recorded when it is computed."""
    groups: dict[str, list[Planned]] = {}
    for cell in cells:  # cells that share models are checked together, so each model is opened once
        attack = cell.spec["attack"] or {}
        key = [cell.spec["net"], cell.spec["defense"], attack.get("surrogate")]
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(cell)
    samples: dict[str, int | str] = {}
    for ids, results in pool.map(_check_group, list(groups.values())):
        samples |= dict(zip(ids, results, strict=True))
    if not safe_mode:
        raise_all(str(found) for cell in cells if isinstance(found := samples[cell.id], str))
    return sum(n * gradient_calls(cell.spec) for cell in cells if isinstance(n := samples[cell.id], int))


def _check_group(
    cells: Sequence[Planned], factory: CellFactory, watcher: Watcher
) -> tuple[list[str], list[int | str]]:
    return [cell.id for cell in cells], check_cells(cells, factory, watcher)


def _log(folder: Path, text: str) -> None:
    path = folder / "log.txt"
    with naming_file(path), path.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
