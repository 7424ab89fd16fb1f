"""File -> cells. A cell is content-addressed: its id is the hash of its resolved options, so a resumed run knows what is done."""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from limen.attacks._problem import NO_BUDGET, needs_budget
from limen.attacks._run import SHARED
from limen.components import parse
from limen.errors import UserError
from limen.experiments.file import Experiment, Net, Surrogate, TaskEntry

NOT_AUDITED = ("random_noise", "imported")
"""Attacks that search nothing."""


@dataclass(frozen=True)
class Planned:
    """One cell to run."""

    order: int
    task_index: int
    spec: dict[str, Any]
    """Everything that decides the result, defaults written out."""
    labels: dict[str, str]
    variable: dict[str, Any] | None

    @property
    def words(self) -> str:
        """The cell in a line."""
        varied = ", ".join(f"{k.rsplit('.', 1)[-1]} {v}" for k, v in (self.variable or {}).items())
        return " | ".join([self.labels["net"], self.labels["defense"], self.labels["attack"], *([varied] if varied else [])])

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode()).hexdigest()[:12]


def resolved(kind: str, spec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The spec with every default written out."""
    if spec is None:
        return None
    component, options = parse(kind, spec)
    return {"name": component.name, **options.model_dump(mode="json")}


def resolved_attack(spec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    own = {k: v for k, v in spec.items() if k not in (*SHARED, "label", "surrogate")}
    full = {
        **(resolved("attacks", own) or {}),
        "goal": resolved("goals", _named(spec.get("goal") or "untargeted")),
        "budget": resolved("budgets", _named(spec.get("budget"))),
        "precision": spec.get("precision") or "auto",
    }
    # only where given: cells of experiments without them keep their ids
    if spec.get("through"):
        full["through"] = [resolved("defenses", _named(one)) for one in spec["through"]]
    if spec.get("draws"):
        full["draws"] = spec["draws"]
    if spec.get("surrogate") is not None:
        given = Surrogate.model_validate(spec["surrogate"])
        models = [resolved("models", m) for m in given.models]
        full["surrogate"] = {**given.model_dump(mode="json", exclude={"label"}), "models": models, "stop": resolved("models", given.stop)}
    return full


def _named(spec: Any) -> Any:
    return {"name": spec} if isinstance(spec, str) else spec


def _net(net: Net) -> dict[str, Any]:
    return {"model": resolved("models", net.model), "data": resolved("data", net.data)}


def plan(experiment: Experiment) -> list[Planned]:
    """All cells in the order they run; a cell that appears twice is run once."""
    cells: list[Planned] = []
    seen: set[str] = set()
    for number, entry in enumerate(experiment.tasks):
        used: set[str] = set()
        grid = list(_grid(entry, used))
        for spec, labels, variable in [*grid, *(_audits(entry, grid, experiment) if experiment.audit else [])]:
            full = {**spec, "seed": experiment.seed, "store": experiment.store, "examples": experiment.examples}
            cell = Planned(len(cells), number, full, labels, variable)
            if cell.id not in seen:
                seen.add(cell.id)
                cells.append(cell)
        if unused := set(entry.sweep) - used:
            raise UserError(
                f"tasks[{number}].sweep: no cell has the option {', '.join(sorted(unused))}. "
                "Names start with attack, defense, model, data or task: attack.budget.eps, defense.quality."
            )
    return cells


Laid = tuple[dict[str, Any], dict[str, str], dict[str, Any] | None]
"""A cell of a grid: its spec, its labels, and the values of the sweep."""


def _grid(entry: TaskEntry, used: set[str]) -> Iterator[Laid]:
    for net, defense, attack in itertools.product(entry.nets, entry.defenses, entry.attacks):
        if attack is None and entry.task["name"] in ("constrained_accuracy", "transfer"):
            raise UserError(f"The task {entry.task['name']} needs an attack; leave null out of `attacks`.")
        parts: dict[str, Any] = {
            "task": entry.task,
            **_net(net),
            "defense": resolved("defenses", defense),
            "attack": resolved_attack(attack),
        }
        parts["task"] = resolved("tasks", entry.task)
        axes = [(path, values) for path, values in entry.sweep.items() if _has(parts, path)]
        used.update(path for path, _ in axes)
        for values in itertools.product(*(v for _, v in axes)):
            variable = dict(zip((p for p, _ in axes), values, strict=True))
            here = copy.deepcopy(parts)
            for path, value in variable.items():
                _put(here, path, value)
            spec = {
                "task": resolved("tasks", here["task"]),
                "net": {k: resolved(kind, here[k]) for k, kind in (("model", "models"), ("data", "data"))},
                "defense": resolved("defenses", here["defense"]),
                "attack": resolved_attack(here["attack"]),
                "metrics": None if entry.metrics is None else [resolved("metrics", m) for m in entry.metrics],
                "attack_on_defense": entry.attack_on_defense,
            }
            _check_budget(spec, entry.task)
            yield spec, _labels(net, defense, attack), variable or None


def _check_budget(spec: dict[str, Any], task: dict[str, Any]) -> None:
    """Refuses an attack that cannot do without a budget and has none: here, not hours later in its cell."""
    attack = spec["attack"]
    if attack is None or attack["budget"] is not None:
        return
    component, options = parse("attacks", {k: v for k, v in attack.items() if k not in (*SHARED, "surrogate")})
    # that task sets the budget of each point of its curve, but a universal perturbation is crafted before
    given = task["name"] == "constrained_accuracy" and task.get("how") == "budget" and not hasattr(component.module, "craft")
    if needs_budget(options) and not given:
        raise UserError(f"The attack {attack['name']} {NO_BUDGET}")


def _audits(entry: TaskEntry, grid: list[Laid], experiment: Experiment) -> Iterator[Laid]:
    """One cell per net and defence that a search of the entry attacks, under the goal and budget of the first attack that has one, those
    computed on the net itself before others; of a sweep, under the value in the middle."""
    groups: dict[str, list[Laid]] = {}
    for cell in grid if entry.task["name"] in ("accuracy", "constrained_accuracy") else []:
        attack = cell[0]["attack"]
        if attack and attack["name"] not in NOT_AUDITED:
            who = [cell[1]["net"], cell[1]["data"], cell[0]["net"]["model"], cell[0]["defense"]]
            groups.setdefault(json.dumps(who, sort_keys=True), []).append(cell)
    for group in groups.values():
        direct = [cell for cell in group if not cell[0]["attack"].get("surrogate")] or group
        bounded = [cell for cell in direct if cell[0]["attack"]["budget"]] or direct
        same = [cell for cell in bounded if cell[1]["attack"] == bounded[0][1]["attack"]]
        spec, labels, variable = same[len(same) // 2]
        attack = {"name": "pgd", **{k: spec["attack"][k] for k in ("goal", "budget", "precision", "draws") if k in spec["attack"]}}
        task = {"name": "audit", "others": _others(spec["net"], experiment)}
        varied = {path: value for path, value in (variable or {}).items() if path.partition(".")[0] in ("model", "defense")}
        yield (
            {**spec, "task": resolved("tasks", task), "attack": resolved_attack(attack), "metrics": []},
            {**labels, "attack": "audit"},
            varied or None,
        )


def _others(net: dict[str, Any], experiment: Experiment) -> list[dict[str, Any]]:
    """The first other model that the experiment judges on the same data: what fools it may fool this one too."""
    nets = [_net(other) for entry in experiment.tasks for other in entry.nets]
    return [other["model"] for other in nets if other["data"] == net["data"] and other["model"] != net["model"]][:1]


def _labels(net: Net, defense: dict[str, Any] | None, attack: dict[str, Any] | None) -> dict[str, str]:
    words = "none"
    if attack is not None:
        words = attack.get("label") or attack["name"]
        if attack.get("through") and not attack.get("label"):
            words += f" through {' + '.join(_named(one)['name'] for one in attack['through'])}"
        if attack.get("surrogate") is not None and not attack.get("label"):
            words += f" on {attack['surrogate'].get('label') or ' + '.join(m['name'] for m in attack['surrogate']['models'])}"
    return {
        "net": net.label or net.model["name"],
        "data": net.data["name"],
        "defense": defense["name"] if defense else "none",
        "attack": words,
    }


def _walk(parts: dict[str, Any], path: str) -> tuple[Any, str]:
    *way, last = path.split(".")
    place: Any = parts
    for step in way:
        place = place.get(step) if isinstance(place, dict) else None
    return place, last


def _has(parts: dict[str, Any], path: str) -> bool:
    place, last = _walk(parts, path)
    return isinstance(place, dict) and last in place


def _put(parts: dict[str, Any], path: str, value: Any) -> None:
    place, last = _walk(parts, path)
    place[last] = value
