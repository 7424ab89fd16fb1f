"""`limen plan` of a CrAdv file: its cells, with the pictures, gradients and estimated time of each."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.spec import AttackSpec
from limen.core import seeds
from limen.experiments.cradv import plan, schema
from limen.experiments.cradv.attacks import SEARCHES
from limen.experiments.cradv.check import check
from limen.experiments.cradv.nets import Opened, Opener, View, mapped
from limen.experiments.cradv.results import duration
from limen.experiments.cradv.runner import device_of
from limen.experiments.cradv.tasks import constraint_values
from limen.goals.base.goal import Goal
from limen.models.base.model import evaluating

MEASURED = 8
"""Pictures of the batch that is timed."""


@dataclass(frozen=True)
class Cost:
    pictures: int
    passes: float
    """Forward and backward passes, at most."""
    seconds: float


def show(
    content: dict[str, Any],
    file: Path,
    *,
    mapping: dict[str, str],
    limit: int | None,
    device: str,
    quick: bool,
    console: Console,
) -> None:
    """Print every cell in order. Unless `quick`, nets and data are opened as in `run`, so that everything
    that is missing is reported."""
    config, cells = plan.read_plan(mapped(content, mapping), str(file), _printed(console))
    table = Table("cell", box=None, header_style="bold")
    if quick:
        for cell in cells:
            table.add_row(cell.description)
        console.print(table, f"{len(cells)} cells", sep="\n")
        return
    opener = Opener(file, mapping, device_of(config, device, _printed(console)), _printed(console))
    check(cells, opener)
    pace: dict[str, float] = {}
    costs = [_cost(cell, opener, limit, pace) for cell in cells]
    for heading in ("pictures", "gradients", "about"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell, cost in zip(cells, costs, strict=True):
        table.add_row(cell.description, str(cost.pictures), f"{cost.passes:,.0f}", duration(cost.seconds))
    console.print(table)
    console.print(
        f"{len(cells)} cells, at most about {duration(sum(c.seconds for c in costs))} on this machine "
        "(searches stop early on fooled pictures)"
    )


def _printed(console: Console) -> plan.Say:
    shown: set[str] = set()

    def say(text: str) -> None:
        if text not in shown:
            shown.add(text)
            console.print(text, style="yellow", soft_wrap=True, markup=False)

    return say


def _cost(cell: plan.CradvCell, opener: Opener, limit: int | None, pace: dict[str, float]) -> Cost:
    net = opener.net(cell.net)
    if cell.net.id not in pace:
        pace[cell.net.id] = _seconds_per_pass(net)
    data = opener.data(cell.net, "train") if cell.task.task_name == "train" else net.data
    pictures = min(
        n for n in (getattr(cell.params, "limit_samples", None), limit, len(data)) if n is not None
    )
    classes = len(net.model.classes or [])
    passes = pictures * sum(_passes(cell, attack, classes) for attack in cell.attacks) * len(cell.defenses)
    return Cost(pictures, passes, passes * pace[cell.net.id])


def _passes(cell: plan.CradvCell, attack: plan.Attack | None, classes: int) -> float:
    """Most passes per picture: those of each run of the search and one for the evaluation."""
    times = len(cell.variable[1]) if cell.variable else 1
    if isinstance(cell.params, schema.ConstrainedAccuracy):
        key = "dissimilarity" if cell.params.dissimilarity else "max_2_norm"
        points = len(constraint_values(cell.params))
        again = attack is not None and key in type(attack.params).model_fields
        return (points if again else 1) * _search(attack, classes) + points
    epochs = cell.params.epochs if isinstance(cell.params, schema.Train) else 1
    return times * epochs * (_search(attack, classes) + 1)


def _search(attack: plan.Attack | None, classes: int) -> float:
    if attack is None:
        return 0.0
    search = SEARCHES[attack.name](attack.params)
    return AttackSpec.parse({"name": search.name, **search.options}).options.cost(classes)


def _seconds_per_pass(net: Opened) -> float:
    """Seconds of a gradient of one picture, measured on one small batch."""
    batch = next(net.batches(min(MEASURED, len(net.data))))
    view = View(net.model, net.space)
    assert isinstance(batch.y, torch.Tensor)
    with torch.no_grad(), evaluating(view):
        problem = Problem(
            view,
            batch.x,
            Goal(batch.y, False),
            None,
            seeds.generators(0, batch.ids, "plan"),
            *net.space.bounds,
            y=batch.y,
        )
        problem.gradient(batch.x)
        begun = time.perf_counter()
        problem.gradient(batch.x)
    return (time.perf_counter() - begun) / len(batch)
