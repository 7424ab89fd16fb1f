"""Cells that an experiment adds to itself: an audit of the gradients of each attacked net and defence."""

import json
from collections.abc import Iterator
from typing import Any

from limen.attacks.engine.spec import AttackSpec
from limen.experiments.file import Experiment, TaskEntry
from limen.experiments.grid import GridCell
from limen.experiments.resolved import resolved, resolved_net
from limen.tasks.base.task import parse_task

SAME_AS_ATTACK = ("goal", "budget", "precision", "draws")
"""Options that the audit takes from the attack that it checks."""


def audit_cells(entry: TaskEntry, cells: list[GridCell], others: "OtherModels") -> Iterator[GridCell]:
    """One audit for each net and defence that a search of the entry attacks.

    It takes the goal and budget of the first attack with a budget, preferring attacks computed on the net
    itself to those on surrogates; within a sweep, the value in the middle."""
    for group in _groups(entry, cells).values():
        direct = [cell for cell in group if not cell.attack.get("surrogate")] or group
        bounded = [cell for cell in direct if cell.attack["budget"]] or direct
        same = [cell for cell in bounded if cell.labels["attack"] == bounded[0].labels["attack"]]
        cell = same[len(same) // 2]
        attack = {"name": "pgd", **{k: cell.attack[k] for k in SAME_AS_ATTACK if k in cell.attack}}
        task = {"name": "audit", "others": others.of(cell.spec["net"])}
        varied = {
            path: value
            for path, value in (cell.variable or {}).items()
            if path.partition(".")[0] in ("model", "defense")
        }
        yield GridCell(
            {
                **cell.spec,
                "task": resolved("tasks", task),
                "attack": AttackSpec.parse(attack).resolved(),
                "metrics": [],
            },
            {**cell.labels, "attack": "audit"},
            varied or None,
        )


def _groups(entry: TaskEntry, cells: list[GridCell]) -> dict[str, list[GridCell]]:
    """The cells that are attacked by a search, by net and defence."""
    groups: dict[str, list[GridCell]] = {}
    if not parse_task(entry.task)[1].audited:
        return groups
    for cell in cells:
        if cell.spec["attack"] and AttackSpec.parse(cell.attack).options.searches:
            net, defense = cell.spec["net"]["model"], cell.spec["defense"]
            key = json.dumps([cell.labels["net"], cell.labels["data"], net, defense], sort_keys=True)
            groups.setdefault(key, []).append(cell)
    return groups


class OtherModels:
    """The models that the experiment evaluates on each data set."""

    def __init__(self, experiment: Experiment):
        self.models: dict[str, list[dict[str, Any]]] = {}
        for net in (resolved_net(net) for entry in experiment.tasks for net in entry.nets):
            known = self.models.setdefault(json.dumps(net["data"], sort_keys=True), [])
            if len(known) < 2 and net["model"] not in known:
                known.append(net["model"])

    def of(self, net: dict[str, Any]) -> list[dict[str, Any]]:
        """The first other model on the same data: adversarial samples of one may transfer to the other."""
        known = self.models.get(json.dumps(net["data"], sort_keys=True), [])
        return [model for model in known if model != net["model"]][:1]
