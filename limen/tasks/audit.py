"""Are the gradients to be trusted? Probes that tell a robust model from one that only hides the way to its mistakes.

After Athalye et al. 2018, https://arxiv.org/abs/1802.00420, and Carlini et al. 2019, https://arxiv.org/abs/1902.06705. Under the goal and
the budget of the cell's attack, on a few samples: one step, many steps, noise, a search without gradients, the attack of the undefended
net, and a budget that allows everything; besides, the loss along the way and the size of the gradients. The report draws the conclusions.
"""

from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field

from limen.attacks._problem import Problem
from limen.attacks._run import Attack
from limen.components import parse
from limen.errors import UserError
from limen.options import Options
from limen.tasks._cell import Cell, Outcome
from limen.types import BOUNDS

MARKS = (0.0, 0.025, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0)
"""Shares of the steps after which the loss is noted."""


class Audit(Options):
    samples: int = Field(default=32, ge=1)
    """Samples that are probed; of recognisers, which cost a hundred times more, an eighth."""
    steps: int = Field(default=40, ge=2)
    """Gradient steps of the many-step probes."""
    queries: int = Field(default=1000, ge=1)
    """Queries of the search without gradients (classifiers under linf or l2)."""


def audit(cell: Cell, options: Audit) -> Outcome:
    if cell.attack is None or cell.attack.budget is None:
        raise UserError("The task audit needs an attack with a budget, which it probes: {name: pgd, budget: {name: linf, eps: 0.03}}.")
    probes = _probes(cell, options)
    rows: list[dict[str, Any]] = []
    walked: list[dict[str, torch.Tensor]] = []
    dead = asked = 0
    for batch in cell.batches(max(1, options.samples // 8) if cell.model.output == "transcript" else options.samples):
        found: dict[str, list[Any]] = {"label": cell.names(batch.y), **{name: probe(batch) for name, probe in probes.items()}}
        with torch.no_grad():
            problem = cell.attack.pose(cell.seen, batch, seed=cell.seed)
            walked.append(_walk(problem, options.steps))
        dead, asked = dead + int(problem.calls.dead.sum()), asked + int(problem.calls.backward.sum())
        rows += [{"id": name, **{k: v[i] for k, v in found.items()}} for i, name in enumerate(batch.ids)]
        cell.advance(len(batch))
    paths = {k: torch.cat([w[k] for w in walked], 1) for k in walked[0]}
    marks = sorted({round(share * options.steps) for share in MARKS})
    norms = paths["norm"][paths["norm"] > 0]
    result = {
        "probes": {name: sum(row[name] for row in rows) / len(rows) for name in probes},
        "steps": marks,
        "loss": [float(paths["loss"][k].mean()) for k in marks],
        "reached": [float(paths["reached"][k].mean()) for k in marks],
        "dead": dead / asked,
        "gradient_norms": [float(q) for q in torch.quantile(norms, torch.tensor([0.0, 0.5, 1.0]).to(norms))] if len(norms) else [],
        "random": cell.victim.random,
        "draws": cell.victim.draws,
        "n": len(rows),
    }
    return Outcome(rows, result)


def _probes(cell: Cell, options: Audit) -> dict[str, Callable[..., list[bool]]]:
    """Name -> samples to whether each was fooled, judged as stored."""
    assert cell.attack is not None
    assert cell.attack.budget is not None
    goal, budget = cell.attack.goal, cell.attack.budget

    def search(name: str, under: Any = budget, **chosen: Any) -> Attack:
        return Attack(*parse("attacks", {"name": name, **chosen}), goal, under, cell.attack.precision)  # type: ignore[union-attr]

    low, high = BOUNDS[cell.data.kind]
    attacks = {
        "noise": search("random_noise"),
        "one_step": search("fgsm"),
        "many_steps": search("pgd", steps=options.steps),
        "anything_allowed": search("pgd", parse("budgets", {"name": "linf", "eps": high - low}), steps=options.steps),
    }
    if cell.model.output == "class" and budget[0].name in ("linf", "l2"):
        attacks["no_gradients"] = search("square", queries=options.queries)
    probes = {name: _judged(cell, attack) for name, attack in attacks.items()}
    if cell.victim is not cell.model:
        probes["undefended"] = _judged(cell, attacks["many_steps"], of_the_net=True)
    return probes


def _judged(cell: Cell, attack: Attack, of_the_net: bool = False) -> Callable[..., list[bool]]:
    def probe(batch: Any) -> list[bool]:
        return attack(cell.model if of_the_net else cell.seen, batch, seed=cell.seed, victim=cell.victim, store=cell.store).success.tolist()

    return probe


def _walk(problem: Problem, steps: int) -> dict[str, torch.Tensor]:
    """(steps + 1, B) loss, reached and L2 norm of the gradient along a plain projected gradient ascent from the clean sample."""
    x_adv = problem.x.clone()
    path: dict[str, list[torch.Tensor]] = {"loss": [], "reached": [], "norm": []}
    for step in range(steps + 1):
        gradient, loss, reached = problem.gradient(x_adv)
        for name, value in (("loss", loss), ("reached", reached), ("norm", gradient.flatten(1).norm(dim=1))):
            path[name].append(value.double())
        x_adv = problem.step(x_adv, gradient, problem.ball.radius * (2.5 / steps)) if step < steps else x_adv
    return {name: torch.stack(values) for name, values in path.items()}
