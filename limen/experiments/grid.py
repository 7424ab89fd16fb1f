"""One entry of an experiment file -> its cells: every net x defence x attack x value of the sweep."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from limen.attacks.engine.problem import NO_BUDGET
from limen.attacks.engine.spec import AttackSpec
from limen.core.errors import UserError
from limen.defenses.base.compose import label
from limen.experiments.file import Net, TaskEntry
from limen.experiments.resolved import resolved, resolved_defenses, resolved_net
from limen.experiments.sweep_names import has_option, set_option
from limen.tasks.base.task import parse_task


@dataclass(frozen=True)
class GridCell:
    """A cell before the options of the whole experiment (seed, ...) are added to its spec."""

    spec: dict[str, Any]
    labels: dict[str, str]
    variable: dict[str, Any] | None
    """Values of the sweep by dotted name; null without a sweep."""

    @property
    def attack(self) -> dict[str, Any]:
        """The spec of its attack, for cells that have one."""
        attack: dict[str, Any] = self.spec["attack"]
        return attack


@dataclass(frozen=True)
class GridPoint:
    """One net, defence and attack of an entry."""

    parts: dict[str, Any]
    """What a sweep varies, defaults written out: task, model, data, defense, attack."""
    fixed: dict[str, Any]
    labels: dict[str, str]
    axes: list[str]
    """The options of the sweep that exist here."""


def grid_points(entry: TaskEntry) -> Iterator[GridPoint]:
    """Every net x defence x attack."""
    metrics = None if entry.metrics is None else [resolved("metrics", m) for m in entry.metrics]
    fixed = {"metrics": metrics, "attack_on_defense": entry.attack_on_defense}
    task, nets = resolved("tasks", entry.task), [(net, resolved_net(net)) for net in entry.nets]
    defenses = [resolved_defenses(defense) for defense in entry.defenses]
    specs = [None if attack is None else AttackSpec.parse(attack) for attack in entry.attacks]
    attacks = [(spec, spec and spec.resolved()) for spec in specs]
    for (net, net_spec), defense, (attack, attack_spec) in itertools.product(nets, defenses, attacks):
        parts = {"task": task, **net_spec, "defense": defense, "attack": attack_spec}
        axes = [path for path in entry.sweep if has_option(parts, path)]
        yield GridPoint(parts, fixed, _labels(net, defense, attack), axes)


def _labels(net: Net, defense: list[dict[str, Any]] | None, attack: AttackSpec | None) -> dict[str, str]:
    return {
        "net": net.label or net.model["name"],
        "data": net.data["name"],
        "defense": label(defense),
        "attack": attack.title if attack else "none",
    }


def grid_cells(point: GridPoint, entry: TaskEntry) -> Iterator[GridCell]:
    """The point under every value of the sweep."""
    for values in itertools.product(*(entry.sweep[path] for path in point.axes)):
        variable = dict(zip(point.axes, values, strict=True))
        parts = _varied(point.parts, variable) if variable else point.parts
        task, attack = parts["task"], parts["attack"]
        if attack is None and parse_task(task)[1].needs_attack:
            raise UserError(f"The task {task['name']} needs an attack; leave null out of `attacks`.")
        _check_budget(attack, task)
        net = {"model": parts["model"], "data": parts["data"]}
        spec = {"task": task, "net": net, "defense": parts["defense"], "attack": attack, **point.fixed}
        yield GridCell(spec, point.labels, variable or None)


def _varied(parts: dict[str, Any], variable: dict[str, Any]) -> dict[str, Any]:
    """The parts with these options changed, validated like those of the file."""
    parts = copy.deepcopy(parts)
    for path, value in variable.items():
        set_option(parts, path, value)
    required = {}
    for part, kind in (("task", "tasks"), ("model", "models"), ("data", "data")):
        spec = parts[part]
        required[part] = resolved(kind, {"name": spec} if isinstance(spec, str) else spec or {})
    return {
        **required,
        "defense": resolved_defenses(parts["defense"]),
        "attack": None if parts["attack"] is None else AttackSpec.parse(parts["attack"]).resolved(),
    }


def _check_budget(attack: dict[str, Any] | None, task: dict[str, Any]) -> None:
    """Refuse an attack that needs a budget and has none before the first cell is computed."""
    if attack is None or attack["budget"] is not None:
        return
    options = AttackSpec.parse(attack).options
    # a task may set the budget of each run of the attack, but a universal perturbation is crafted before
    given = parse_task(task)[1].sets_budget() and not options.universal
    if options.needs_budget and not given:
        raise UserError(f"The attack {attack['name']} {NO_BUDGET}")
