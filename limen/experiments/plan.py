"""File -> cells. A cell is content-addressed: its id is the hash of its resolved options, so a resumed run knows what is done."""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    own = {k: v for k, v in spec.items() if k not in ("goal", "budget", "label", "surrogate", "precision")}
    full = {
        **(resolved("attacks", own) or {}),
        "goal": resolved("goals", _named(spec.get("goal") or "untargeted")),
        "budget": resolved("budgets", _named(spec.get("budget"))),
        "precision": spec.get("precision") or "auto",
    }
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
        for spec, labels, variable in [*_grid(entry, used), *(_audits(entry) if experiment.audit else [])]:
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


def _grid(entry: TaskEntry, used: set[str]) -> Iterator[tuple[dict[str, Any], dict[str, str], dict[str, Any] | None]]:
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
            yield spec, _labels(net, defense, attack), variable or None


def _audits(entry: TaskEntry) -> Iterator[tuple[dict[str, Any], dict[str, str], None]]:
    """One cell per net and defence that a search of the entry attacks directly, under the goal and budget of the first such attack."""
    direct = [a for a in entry.attacks if a and a.get("budget") and not a.get("surrogate") and a["name"] not in NOT_AUDITED]
    if not direct or entry.task["name"] not in ("accuracy", "constrained_accuracy"):
        return
    attack: dict[str, Any] = {"name": "pgd", **{k: direct[0][k] for k in ("goal", "budget", "precision") if k in direct[0]}}
    for net, defense in itertools.product(entry.nets, entry.defenses):
        spec: dict[str, Any] = {"task": resolved("tasks", {"name": "audit"}), "net": _net(net),
                                "defense": resolved("defenses", defense), "attack": resolved_attack(attack), "metrics": [],
                                "attack_on_defense": entry.attack_on_defense}  # fmt: skip
        yield spec, {**_labels(net, defense, None), "attack": "audit"}, None


def _labels(net: Net, defense: dict[str, Any] | None, attack: dict[str, Any] | None) -> dict[str, str]:
    words = "none"
    if attack is not None:
        words = attack.get("label") or attack["name"]
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
