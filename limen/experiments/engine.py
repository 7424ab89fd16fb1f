"""Plan -> run folder: one cell after another, each written whole, any of them able to fail alone."""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from limen.attacks._run import Attack, Store
from limen.components import parse
from limen.data._dataset import Dataset
from limen.errors import UserError
from limen.experiments.file import Experiment
from limen.experiments.folder import close_run, done, environment, finish_cell, start_cell, write_json
from limen.experiments.plan import Planned, plan
from limen.metrics._apply import Metric, applicable
from limen.models._load import load_model
from limen.models._model import Model
from limen.tasks._cell import Cell, Outcome


class Progress(Protocol):
    """What the engine tells whoever watches."""

    def begin(self, total: float) -> None: ...
    def cell(self, number: int, count: int, words: str) -> None: ...
    def advance(self, units: float) -> None: ...
    def say(self, text: str) -> None: ...


class Quiet:
    """Nobody watches."""

    def begin(self, total: float) -> None: ...
    def cell(self, number: int, count: int, words: str) -> None: ...
    def advance(self, units: float) -> None: ...
    def say(self, text: str) -> None: ...


@dataclass
class Workshop:
    """Opens models and data once and keeps them for the next cell."""

    device: torch.device
    batch_size: int
    _models: dict[str, Model] = field(default_factory=dict)
    _data: dict[str, Dataset] = field(default_factory=dict)
    _crafted: dict[str, Any] = field(default_factory=dict)

    def model(self, spec: dict[str, Any]) -> Model:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._models:
            self._models[key] = load_model(spec).to(self.device).eval()
        return self._models[key]

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
                    f"The model takes clips at {model.rate_hz} Hz, but the data {spec['name']} gives {data.rate_hz} Hz "
                    "and has no option rate_hz."
                )
            self._data[key] = data
        return self._data[key]

    def cell(self, planned: Planned, folder: Path) -> Cell:
        """Everything a task needs."""
        spec = planned.spec
        model = self.model(spec["net"]["model"])
        data = self.data(spec["net"]["data"], model)
        victim = model
        if spec["defense"] is not None:
            component, options = parse("defenses", spec["defense"])
            victim = component.function(model, options)
        attack, seen = None, victim if spec["attack_on_defense"] else model
        if spec["attack"] is not None:
            attack = Attack.parse({k: v for k, v in spec["attack"].items() if k != "on"})
            if spec["attack"].get("on") is not None:
                seen = self.model(spec["attack"]["on"]["model"])
        part = lambda split, limit: self.data({**spec["net"]["data"], "split": split, "limit": limit}, model)  # noqa: E731
        store: Store = ("int16" if data.kind == "clip" else "float") if spec["store"] == "auto" else spec["store"]
        sees_defense = spec["defense"] if spec["attack_on_defense"] else None
        data_spec = {k: v for k, v in spec["net"]["data"].items() if k not in ("split", "limit")}
        return Cell(
            model=model,
            victim=victim,
            seen=seen,
            data=data,
            attack=attack,
            metrics=applicable(spec["metrics"], model.kind, model.output, True),
            folder=folder,
            training=partial(part, "train"),
            validation=partial(part, "valid"),
            limit=spec["net"]["data"].get("limit"),
            seed=spec["seed"],
            store=store,
            batch_size=self.batch_size,
            crafted=self._crafted,
            craft_key=json.dumps([spec["net"]["model"], data_spec, sees_defense, spec["attack"], spec["seed"]], sort_keys=True),
            examples=spec["examples"],
            device=self.device,
        )


def gradient_calls(spec: dict[str, Any]) -> float:
    """About how many gradients per sample a cell asks for, for time estimates; attacks that leave early need fewer."""
    work = 1.0
    if spec["attack"] is not None:
        component, options = parse("attacks", {k: v for k, v in spec["attack"].items() if k not in ("goal", "budget", "on")})
        cost = getattr(component.module, "cost", None)
        work += cost(options) if cost else getattr(options, "steps", 1) * getattr(options, "restarts", 1)
    if spec["task"]["name"] == "constrained_accuracy":
        work *= len(spec["task"]["values"])
    return work


def samples_of(cell: Planned, workshop: Workshop) -> int:
    data = workshop.data(cell.spec["net"]["data"], workshop.model(cell.spec["net"]["model"]))
    return min(len(data), cell.spec["task"].get("limit_samples") or len(data))


def run_cell(cell: Planned, folder: Path, workshop: Workshop, progress: Progress) -> tuple[dict[str, Any], Outcome, list[Metric]]:
    """Facts about the cell, what its task left, and the metrics it took."""
    begun = time.perf_counter()
    ready = workshop.cell(cell, folder)
    work = gradient_calls(cell.spec)
    ready.advance, ready.say = (lambda n: progress.advance(n * work)), progress.say
    task, options = parse("tasks", cell.spec["task"])
    outcome = task.function(ready, options)
    if ready.data.skipped:
        progress.say(f"{len(ready.data.skipped)} files of {ready.data.name} were skipped, the first: {ready.data.skipped[0]}")
    facts = {
        "status": "done",
        "error": None,
        "seconds": time.perf_counter() - begun,
        "kind": ready.data.kind,
        "output": ready.model.output,
        "classes": ready.model.classes,
        "rate_hz": ready.data.rate_hz,
        "skipped": ready.data.skipped,
        "random": ready.victim.random,
        "draws": ready.victim.draws,
        "stored_as": ready.store,
        "universal": bool(ready.attack and ready.attack.universal),
    }
    return facts, outcome, ready.metrics


def open_run(experiment: Experiment, run: Path, resume: bool) -> None:
    """Make the folder, or check that it holds the same experiment."""
    config = run / "config.json"
    resolved = experiment.model_dump(mode="json")
    if config.is_file():
        if not resume:
            raise UserError(f"{run} already holds a run. Continue it with --resume, or choose another folder with --out.")
        old = json.loads(config.read_text(encoding="utf-8"))
        changed = [k for k in resolved if k not in ("batch_size", "safe_mode", "description") and old.get(k) != resolved[k]]
        if changed:
            raise UserError(f"{run} holds another experiment (different: {', '.join(changed)}). Choose another folder with --out.")
    elif run.exists() and any(run.iterdir()):
        raise UserError(f"{run} is not empty and holds no run. Choose another folder with --out.")
    (run / "cells").mkdir(parents=True, exist_ok=True)
    write_json(config, resolved)
    write_json(run / "environment.json", environment())


def run(
    experiment: Experiment,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
    after: Callable[[Planned, Outcome, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run every cell that is not done yet; returns the run's summary. `after` sees each finished cell."""
    progress = progress or Quiet()
    cells = plan(experiment)
    open_run(experiment, folder, resume)
    workshop = Workshop(torch.device(device), experiment.batch_size)
    todo = [cell for cell in cells if not done(folder, cell)]
    log = partial(_log, folder / "log.txt")
    log(f"{len(cells)} cells, {len(cells) - len(todo)} done before")
    progress.begin(sum(samples_of(c, workshop) * gradient_calls(c.spec) for c in todo))
    for cell in todo:
        words = " | ".join(v for k, v in cell.labels.items() if k != "data") + (f" | {_variable(cell)}" if cell.variable else "")
        progress.cell(cells.index(cell) + 1, len(cells), words)
        part = start_cell(folder, cell)
        metrics: list[Metric] = []
        try:
            facts, outcome, metrics = run_cell(cell, part, workshop, progress)
        except Exception as error:
            log(f"cell {cell.id} ({words}) failed: {error}\n{traceback.format_exc()}")
            if not experiment.safe_mode:
                raise
            progress.say(f"failed and recorded: {words}: {error}")
            facts, outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}", "seconds": 0.0, "kind": None}, Outcome()
        finish_cell(folder, cell, part, facts, outcome, metrics)
        log(f"cell {cell.id} ({words}) {facts['status']} in {facts['seconds']:.1f} s, {len(outcome.rows)} rows")
        if after is not None:
            after(cell, outcome, facts)
    return close_run(folder, experiment, cells)


def _variable(cell: Planned) -> str:
    return ", ".join(f"{k.rsplit('.', 1)[-1]} {v}" for k, v in (cell.variable or {}).items())


def _log(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def seconds_per_gradient(cell: Planned, workshop: Workshop) -> float:
    """Measured on one small batch of the cell's own net and data."""
    model = workshop.model(cell.spec["net"]["model"])
    batch = next(iter(workshop.data(cell.spec["net"]["data"], model).batches(8)))
    problem = Attack.parse("pgd").pose(model, batch)
    problem.gradient(batch.x)
    begun = time.perf_counter()
    problem.gradient(batch.x)
    return (time.perf_counter() - begun) / len(batch)
