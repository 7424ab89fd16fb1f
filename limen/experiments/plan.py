"""File -> cells. A cell is content-addressed: its id is the hash of its resolved options, so a resumed run
knows what is done."""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from limen.attacks.engine.problem import NO_BUDGET
from limen.attacks.engine.spec import AttackSpec
from limen.core.components import parse
from limen.core.errors import UserError
from limen.defenses.base.compose import label
from limen.experiments.file import Experiment, Net, TaskEntry
from limen.tasks.base.task import parse_task

MOST_CELLS = 10_000
"""Cells of a run; at ten seconds each they take more than a day."""


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
        return " | ".join(
            [self.labels["net"], self.labels["defense"], self.labels["attack"], *([varied] if varied else [])]
        )

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode()).hexdigest()[:12]


def resolved(kind: str, spec: Any) -> dict[str, Any] | None:
    """The spec with every default written out."""
    if spec is None:
        return None
    component, options = parse(kind, spec)
    return component.spec(options)


def resolved_defenses(specs: Any) -> list[dict[str, Any]] | None:
    """The specs of one defence or a list of them with every default written out."""
    several = specs if isinstance(specs, list) else [] if specs is None else [specs]
    return [resolved("defenses", one) or {} for one in several] or None


def _attack(spec: Any) -> AttackSpec | None:
    return None if spec is None else AttackSpec.parse(spec)


def _named(spec: Any) -> Any:
    return {"name": spec} if isinstance(spec, str) else spec


def _net(net: Net) -> dict[str, Any]:
    return {"model": resolved("models", net.model), "data": resolved("data", net.data)}


def plan(experiment: Experiment) -> list[Planned]:
    """All cells in the order they run; a cell that appears twice is run once."""
    cells: list[Planned] = []
    seen: set[str] = set()
    check_size([len(entry.nets) * len(entry.defenses) * len(entry.attacks) for entry in experiment.tasks])
    points = [list(_points(entry)) for entry in experiment.tasks]
    check_size(
        [
            sum(prod(len(entry.sweep[path]) for path in point.axes) for point in points[i])
            for i, entry in enumerate(experiment.tasks)
        ]
    )
    others = _Others(experiment)
    for number, entry in enumerate(experiment.tasks):
        used = {path for point in points[number] for path in point.axes}
        grid = [cell for point in points[number] for cell in _cells(point, entry)]
        for spec, labels, variable in [*grid, *(_audits(entry, grid, others) if experiment.audit else [])]:
            full = {
                **spec,
                "seed": experiment.seed,
                "store": experiment.store,
                "examples": experiment.examples,
            }
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


def check_size(counts: list[int]) -> None:
    """Refuses what nobody can run, before anything is made of it."""
    if sum(counts) > MOST_CELLS:
        largest = counts.index(max(counts))
        raise UserError(
            f"The plan has {sum(counts):,} cells, {counts[largest]:,} of them in tasks[{largest}] (nets x "
            f"defenses x attacks x values of the sweep); at most {MOST_CELLS:,} fit in a run. Shorten these "
            "lists, or split the file."
        )


@dataclass(frozen=True)
class _Point:
    """One net, defence and attack of a grid."""

    parts: dict[str, Any]
    """What a sweep varies, defaults written out: task, model, data, defense, attack."""
    fixed: dict[str, Any]
    labels: dict[str, str]
    axes: list[str]
    """The options of the sweep that exist here."""


def _points(entry: TaskEntry) -> Iterator[_Point]:
    metrics = None if entry.metrics is None else [resolved("metrics", m) for m in entry.metrics]
    fixed = {"metrics": metrics, "attack_on_defense": entry.attack_on_defense}
    task, nets = resolved("tasks", entry.task), [(net, _net(net)) for net in entry.nets]
    defenses = [resolved_defenses(defense) for defense in entry.defenses]
    attacks = [(attack, attack and attack.resolved()) for attack in map(_attack, entry.attacks)]
    for (net, opened), defense, (attack, against) in itertools.product(nets, defenses, attacks):
        parts = {"task": task, **opened, "defense": defense, "attack": against}
        yield _Point(
            parts, fixed, _labels(net, defense, attack), [path for path in entry.sweep if _has(parts, path)]
        )


def _cells(point: _Point, entry: TaskEntry) -> Iterator[Laid]:
    """The point under every value of the sweep."""
    for values in itertools.product(*(entry.sweep[path] for path in point.axes)):
        variable, here = dict(zip(point.axes, values, strict=True)), point.parts
        if variable:
            here = copy.deepcopy(here)
            for path, value in variable.items():
                _put(here, path, value)
            needed = {
                part: resolved(kind, _named(here[part]) or {})
                for part, kind in (("task", "tasks"), ("model", "models"), ("data", "data"))
            }
            here = {
                **needed,
                "defense": resolved_defenses(here["defense"]),
                "attack": None if here["attack"] is None else AttackSpec.parse(here["attack"]).resolved(),
            }
        task, attack = here["task"], here["attack"]
        if attack is None and parse_task(task)[1].needs_attack:
            raise UserError(f"The task {task['name']} needs an attack; leave null out of `attacks`.")
        _check_budget(attack, task)
        net = {"model": here["model"], "data": here["data"]}
        spec = {"task": task, "net": net, "defense": here["defense"], "attack": attack, **point.fixed}
        yield spec, point.labels, variable or None


def _check_budget(attack: dict[str, Any] | None, task: dict[str, Any]) -> None:
    """Refuses an attack that cannot do without a budget and has none: here, not hours later in its cell."""
    if attack is None or attack["budget"] is not None:
        return
    options = AttackSpec.parse(attack).options
    # a task may set the budget of each run of the attack, but a universal perturbation is crafted before
    given = parse_task(task)[1].sets_budget() and not options.universal
    if options.needs_budget and not given:
        raise UserError(f"The attack {attack['name']} {NO_BUDGET}")


def _audits(entry: TaskEntry, grid: list[Laid], others: "_Others") -> Iterator[Laid]:
    """One cell per net and defence that a search of the entry attacks, under the goal and budget of the first
    attack that has one, those computed on the net itself before others; of a sweep, under the value in the
    middle."""
    groups: dict[str, list[Laid]] = {}
    for cell in grid if parse_task(entry.task)[1].audited else []:
        attack = cell[0]["attack"]
        if attack and AttackSpec.parse(attack).options.searches:
            who = [cell[1]["net"], cell[1]["data"], cell[0]["net"]["model"], cell[0]["defense"]]
            groups.setdefault(json.dumps(who, sort_keys=True), []).append(cell)
    for group in groups.values():
        direct = [cell for cell in group if not cell[0]["attack"].get("surrogate")] or group
        bounded = [cell for cell in direct if cell[0]["attack"]["budget"]] or direct
        same = [cell for cell in bounded if cell[1]["attack"] == bounded[0][1]["attack"]]
        spec, labels, variable = same[len(same) // 2]
        attack = {
            "name": "pgd",
            **{k: spec["attack"][k] for k in ("goal", "budget", "precision", "draws") if k in spec["attack"]},
        }
        task = {"name": "audit", "others": others.of(spec["net"])}
        varied = {
            path: value
            for path, value in (variable or {}).items()
            if path.partition(".")[0] in ("model", "defense")
        }
        probed = AttackSpec.parse(attack).resolved()
        yield (
            {**spec, "task": resolved("tasks", task), "attack": probed, "metrics": []},
            {**labels, "attack": "audit"},
            varied or None,
        )


class _Others:
    """The models that the experiment judges on each data set."""

    def __init__(self, experiment: Experiment):
        self.models: dict[str, list[dict[str, Any]]] = {}
        for net in (_net(net) for entry in experiment.tasks for net in entry.nets):
            known = self.models.setdefault(json.dumps(net["data"], sort_keys=True), [])
            if len(known) < 2 and net["model"] not in known:
                known.append(net["model"])

    def of(self, net: dict[str, Any]) -> list[dict[str, Any]]:
        """The first other model on the same data: what fools it may fool this one too."""
        known = self.models.get(json.dumps(net["data"], sort_keys=True), [])
        return [model for model in known if model != net["model"]][:1]


def _labels(net: Net, defense: list[dict[str, Any]] | None, attack: AttackSpec | None) -> dict[str, str]:
    return {
        "net": net.label or net.model["name"],
        "data": net.data["name"],
        "defense": label(defense),
        "attack": attack.title if attack else "none",
    }


def _walk(parts: dict[str, Any], path: str) -> tuple[Any, str]:
    """The mapping that holds the option with this dotted name, or None, and the option's key there."""
    *way, last = path.split(".")
    place: Any = parts
    for step, following in zip(way, path.split(".")[1:], strict=True):
        if isinstance(place, list):
            place = _member(place, step, path) if step in _members(place) else None
        else:
            place = place.get(step) if isinstance(place, dict) else None
        if isinstance(place, list) and following not in _members(place):
            place = _holder(place, following, path)
    return place, last


def _members(several: list[dict[str, Any]]) -> set[str]:
    """What a dotted name may call the members of a list: their positions and names."""
    return {str(i) for i in range(len(several))} | {one["name"] for one in several}


def _member(several: list[dict[str, Any]], step: str, path: str) -> dict[str, Any]:
    """The member with this position or name."""
    if step.isdigit():
        return several[int(step)]
    return _only([i for i, one in enumerate(several) if one["name"] == step], several, path)


def _holder(several: list[dict[str, Any]], option: str, path: str) -> dict[str, Any] | None:
    """The only member that has this option; None if none has it."""
    found = [i for i, one in enumerate(several) if option in one]
    return _only(found, several, path) if found else None


def _only(found: list[int], several: list[dict[str, Any]], path: str) -> dict[str, Any]:
    if len(found) > 1:
        names = [several[i]["name"] for i in found]
        words = names if len(set(names)) == len(names) else [str(i) for i in found]
        part, _, option = path.partition(".")
        ways = " or ".join(f"{part}.{word}.{option.rpartition('.')[2]}" for word in words)
        raise UserError(f"sweep: {path} is ambiguous: {', '.join(names)} have it. Write {ways}.")
    return several[found[0]]


def _has(parts: dict[str, Any], path: str) -> bool:
    place, last = _walk(parts, path)
    return isinstance(place, dict) and last in place


def _put(parts: dict[str, Any], path: str, value: Any) -> None:
    place, last = _walk(parts, path)
    place[last] = value
