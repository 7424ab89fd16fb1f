"""Are the gradients to be trusted? Probes that tell a robust model from one that only hides the way to its
mistakes.

After Athalye et al. 2018, https://arxiv.org/abs/1802.00420, and Carlini et al. 2019,
https://arxiv.org/abs/1902.06705. Under the goal and the budget of the cell's attack, on a few samples: one
step, many steps, noise, a search without gradients, the attack of the undefended net and of other nets, and a
budget that allows everything; besides, the loss along the way, the gradients as the model gives them, and
whether it answers twice the same. The report draws the conclusions; docs/audit.md says what each means.
"""

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.physical import Through
from limen.attacks.engine.precision import Precision
from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack
from limen.budgets.families.options import declared, default_budget
from limen.core.components import parse, spec_of
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import BOUNDS, Batch, Outputs, answers_of
from limen.models.base.model import Model, check_fits, evaluating
from limen.tasks.base.cell import Cell, Outcome

MARKS = (0.0, 0.025, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0)
"""Shares of the steps after which the loss is noted."""
SAME = 1e-5
"""Two answers that differ by less than this share of the largest logit are the same: sums in another order
round otherwise."""


class Audit(Options):
    samples: int = Field(default=32, ge=1)
    """Samples that are probed; of recognisers, which cost a hundred times more, an eighth."""
    steps: int = Field(default=40, ge=2)
    """Gradient steps of the many-step probes."""
    queries: int = Field(default=1000, ge=2)
    """Queries of the search without gradients (classifiers under linf or l2)."""
    others: list[Annotated[dict[str, Any], spec_of("models")]] = Field(default=[])
    """Models whose attack is tried on this one too; an experiment names another net that it judges on the
    same data, if it has one."""


def at_most(options: Audit, model: Model) -> int:
    """Samples that are probed."""
    return max(1, options.samples // 8) if model.output == "transcript" else options.samples


def cost(options: Audit, attack: float) -> float:
    """In gradients: the walk, three attacks of many steps, and queries, of which three take as long as one.
    The attack of the cell is not run itself."""
    return 4 * options.steps + options.queries / 3


def audit(cell: Cell, options: Audit) -> Outcome:
    if cell.attack is None:
        raise UserError(
            "The task audit needs an attack, whose goal and budget it probes: {name: pgd, budget: {name: "
            "linf, eps: 0.03}}."
        )
    probes, others = _probes(cell, options)
    plain = probes["many_steps"][0]
    rows: list[dict[str, Any]] = []
    walked: list[dict[str, Tensor]] = []
    for batch in cell.batches(at_most(options, cell.model)):
        clean, again = (cell.answer(cell.victim, batch.x, batch, purpose) for purpose in ("clean", "again"))
        with torch.no_grad(), evaluating(cell.attacked_model):
            goal = plain.pose(cell.victim, batch, seed=cell.seed, clean=clean).goal
            walked.append(_walk(plain.pose(cell.attacked_model, batch, seed=cell.seed), options.steps))
        found: dict[str, list[Any]] = {"label": cell.names(batch.y), "clean": goal.judged(clean).tolist()}
        for name, (attack, models) in probes.items():
            attacked = [
                attack(model, batch, seed=cell.seed, victim=cell.victim, store=cell.store) for model in models
            ]
            # what another net takes for its own answer or its least likely class is nothing to judge this one
            # by
            fooled = [(goal if attack.goal is plain.goal else a.goal).judged(a.adversarial) for a in attacked]
            found[name] = torch.stack(fooled).any(0).tolist()
        found["differs"] = _differs(clean, again, batch).tolist()
        rows += [{"id": name, **{k: v[i] for k, v in found.items()}} for i, name in enumerate(batch.ids)]
        cell.advance(len(batch))
    share = lambda name: sum(row[name] for row in rows) / len(rows)
    result = {
        "probes": {name: share(name) for name in ("clean", *probes)},
        "differs": share("differs"),
        "others": others,
        "random": cell.victim.random,
        "draws": plain.through.draws or cell.victim.draws,
        "n": len(rows),
        **_summary({k: torch.cat([w[k] for w in walked], 1) for k in walked[0]}, options.steps),
    }
    return Outcome(rows, result)


def _probes(cell: Cell, options: Audit) -> tuple[dict[str, tuple[Attack, list[Model]]], list[str]]:
    """Name -> an attack and the models it is computed on, each alone; and what the other nets among them are
    called."""
    assert cell.attack is not None
    goal, budget = cell.attack.goal, cell.attack.budget or parse("budgets", default_budget(cell.data.kind))
    low, high = BOUNDS[cell.data.kind]
    rest: tuple[Precision, Through] = (cell.attack.precision, Through(draws=cell.attack.through.draws))
    many = Attack(*parse("attacks", {"name": "pgd", "steps": options.steps}), goal, budget, *rest)
    # whatever the goal is, with everything allowed some wrong answer must be within reach
    everything = parse("budgets", {"name": "linf", "eps": high - low})
    probes = {
        "noise": (Attack(*parse("attacks", "random_noise"), goal, budget, *rest), [cell.attacked_model]),
        "one_step": (Attack(*parse("attacks", "fgsm"), goal, budget, *rest), [cell.attacked_model]),
        "many_steps": (many, [cell.attacked_model]),
        "anything_allowed": (
            Attack(many.search, many.options, parse("goals", "untargeted"), everything, *rest),
            [cell.attacked_model],
        ),
    }
    if cell.model.output == "class" and declared(budget[0]).probed_by_queries:
        square = parse(
            "attacks", {"name": "square", "queries": options.queries, "give_up": 0}
        )  # margins may be hidden for long
        probes["no_gradients"] = (Attack(*square, goal, budget, *rest), [cell.attacked_model])
    if cell.victim is not cell.model and cell.attacked_model is not cell.model:
        probes["undefended"] = (many, [cell.model])
    others = {
        str(spec["name"]): model for spec in options.others if _fits(cell, many, model := cell.open(spec))
    }
    if others:
        probes["transfer"] = (many, list(others.values()))
    return probes, list(others)


def _fits(cell: Cell, attack: Attack, other: Model) -> bool:
    """The other model takes the same samples, gives the same answers, and can be asked for the goal."""
    if (other.kind, other.rate_hz, other.classes) != (
        cell.model.kind,
        cell.model.rate_hz,
        cell.model.classes,
    ):
        return False
    batch = next(cell.batches(1))
    try:
        check_fits(other, batch)
        attack.pose(other, batch, seed=cell.seed)
    except UserError:
        return False
    return True


def _differs(clean: Outputs, again: Outputs, batch: Batch) -> Tensor:
    """(B,) bool: asked twice, the model answers otherwise, whether it calls itself random or not."""
    clean, again = answers_of(clean), answers_of(again)
    if isinstance(clean, Tensor) and isinstance(again, Tensor):
        a, b = clean, again
    else:
        a, b = (outputs.nll(batch.y)[:, None] for outputs in (clean, again))  # type: ignore[union-attr, arg-type]
    return (a - b).abs().amax(1) > SAME * a.abs().amax(1)


def _walk(problem: Problem, steps: int) -> dict[str, Tensor]:
    """(steps + 1, B) along a plain projected gradient ascent from the clean sample: the loss, whether the
    goal is reached, the L2 norm of the gradient, and whether it is zero or not finite."""
    raw: list[Tensor] = []

    def noted(leaf: Tensor) -> Tensor:
        leaf.register_hook(
            raw.append
        )  # gradients as the model gives them: the problem mends what it hands out
        return leaf

    x_adv = problem.x.clone()
    path: dict[str, list[Tensor]] = {name: [] for name in ("loss", "reached", "norm", "zero", "broken")}
    for step in range(steps + 1):
        raw.clear()
        gradient, loss, reached = problem.gradient(x_adv, through=noted)
        given = torch.stack(raw).flatten(2)  # (draws, B, values)
        path["loss"].append(loss.double())
        path["reached"].append(reached)
        path["norm"].append(gradient.flatten(1).double().norm(dim=1))
        path["zero"].append((given == 0).all(2).all(0))
        path["broken"].append(~(given.isfinite().all(2).all(0) & loss.isfinite()))
        x_adv = problem.step(x_adv, gradient, problem.ball.radius * (2.5 / steps)) if step < steps else x_adv
    return {name: torch.stack(values) for name, values in path.items()}


def _summary(path: dict[str, Tensor], steps: int) -> dict[str, Any]:
    """The loss at the marks (none where no sample has a finite one), and the gradients of samples that have
    not reached the goal: behind it even an honest gradient may vanish."""
    marks = sorted({round(share * steps) for share in MARKS})
    finite = path["loss"].isfinite()
    left = ~path["reached"]
    # at a loss of almost nothing an honest gradient is almost nothing too, and makes any other look large
    # beside it
    norms = path["norm"][left & ~path["zero"] & ~path["broken"] & (path["loss"].abs() > 1e-3)]
    share = lambda name: float((path[name] & left).sum() / left.sum().clamp_min(1))
    return {
        "steps": marks,
        "loss": [float(path["loss"][k][finite[k]].mean()) if bool(finite[k].any()) else None for k in marks],
        "reached": [float(path["reached"][k].double().mean()) for k in marks],
        "zero_gradients": share("zero"),
        "broken_gradients": share("broken"),
        "gradient_norms": [float(q) for q in torch.quantile(norms, torch.tensor([0.0, 0.5, 1.0]).to(norms))]
        if len(norms)
        else [],
    }
