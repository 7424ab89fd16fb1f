"""Attack sanity checks: probes that distinguish a robust model from one that masks its gradients.

After Athalye et al. 2018, https://arxiv.org/abs/1802.00420, and Carlini et al. 2019,
https://arxiv.org/abs/1902.06705. Under the goal and the budget of the cell's attack, on a few samples: one
step, many steps, noise, a search without gradients, the attack of the undefended net and of other nets, and a
budget that allows everything. The audit also records the loss along a gradient ascent, the gradients as the
model returns them, and whether two evaluations agree. The report draws the conclusions; docs/audit.md
explains them.
"""

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack
from limen.budgets.families.options import declared, default_budget
from limen.core.components import parse, spec_of
from limen.core.errors import UserError
from limen.core.types import BOUNDS, Batch, Outputs, answers_of
from limen.metrics.base.metric import Column
from limen.models.base.model import Model, check_fits, evaluating
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.task import TaskOptions

MARKS = (0.0, 0.025, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0)
"""Shares of the steps after which the loss is recorded."""
SAME = 1e-5
"""Two outputs that differ by less than this share of the largest logit count as equal: sums in another order
are rounded differently."""


class Audit(TaskOptions):
    title: ClassVar[str] = "attack sanity checks"
    needs_attack: ClassVar[bool] = True
    diagnostic: ClassVar[bool] = True
    sample_limit: ClassVar[str] = "samples"
    samples: int = Field(default=32, ge=1)
    """Number of samples; an eighth of it for recognisers, which take a hundred times longer."""
    steps: int = Field(default=40, ge=2)
    """Gradient steps of the many-step probes."""
    queries: int = Field(default=1000, ge=2)
    """Queries of the search without gradients (classifiers under linf or l2)."""
    others: list[Annotated[dict[str, Any], spec_of("models")]] = Field(default=[])
    """Models whose attack is tried on this one too. An experiment sets another net that it evaluates on the
    same data, if it has one."""

    def at_most(self, model: Model) -> int:
        return max(1, self.samples // _samples_per_probe(model))

    def limited(self, samples: int, model: Model) -> "Audit":
        return self.model_copy(update={"samples": samples * _samples_per_probe(model)})

    def cost(self, attack: float) -> float:
        """The ascent, three attacks of many steps, and queries, three of which take as long as a gradient.
        The attack of the cell is not run."""
        return 4 * self.steps + self.queries / 3

    def columns(self) -> dict[str, Column]:
        probe = lambda meaning: Column(f"the goal is reached {meaning}", better="lower", binary=True)
        return {
            "clean": probe("by the clean sample"),
            "noise": probe("by random noise"),
            "one_step": probe("by one gradient step"),
            "many_steps": probe("by many gradient steps"),
            "anything_allowed": Column("a wrong prediction is reached without any limit", binary=True),
            "no_gradients": probe("by a search without gradients"),
            "undefended": probe("by the attack on the net without its defense"),
            "transfer": probe("by the attack on another net"),
            "differs": Column("two evaluations of the clean sample differ", better="lower", binary=True),
        }


def _samples_per_probe(model: Model) -> int:
    return 8 if model.output == "transcript" else 1


def audit(cell: Cell, options: Audit) -> Outcome:
    if cell.attack is None:
        raise UserError(
            "The task audit needs an attack, whose goal and budget it probes: {name: pgd, budget: {name: "
            "linf, eps: 0.03}}."
        )
    probes, others = _probes(cell, options)
    plain = probes["many_steps"][0]
    rows: list[dict[str, Any]] = []
    ascents: list[dict[str, Tensor]] = []
    for batch in cell.batches(options.at_most(cell.model)):
        clean, again = (cell.answer(cell.victim, batch.x, batch, purpose) for purpose in ("clean", "again"))
        with torch.no_grad(), evaluating(cell.attacked_model):
            goal = plain.pose(cell.victim, batch, seed=cell.seed, clean=clean).goal
            ascents.append(_ascend(plain.pose(cell.attacked_model, batch, seed=cell.seed), options.steps))
        columns: dict[str, list[Any]] = {"label": cell.names(batch.y), "clean": goal.judged(clean).tolist()}
        for name, (attack, models) in probes.items():
            attacked = [
                attack(model, batch, seed=cell.seed, victim=cell.victim, store=cell.store) for model in models
            ]
            # a goal relative to a prediction must be relative to that of this net, not of another one
            same_goal = attack.spec.goal is plain.spec.goal
            fooled = [(goal if same_goal else a.goal).judged(a.adversarial) for a in attacked]
            columns[name] = torch.stack(fooled).any(0).tolist()
        columns["differs"] = _differs(clean, again, batch).tolist()
        rows += [{"id": name, **{k: v[i] for k, v in columns.items()}} for i, name in enumerate(batch.ids)]
        cell.advance(len(batch))
    share = lambda name: sum(row[name] for row in rows) / len(rows)
    result = {
        "probes": {name: share(name) for name in ("clean", *probes)},
        "differs": share("differs"),
        "others": others,
        "random": cell.victim.random,
        "draws": plain.spec.draws or cell.victim.draws,
        "n": len(rows),
        **_summary({k: torch.cat([w[k] for w in ascents], 1) for k in ascents[0]}, options.steps),
    }
    return Outcome(rows, result)


def _probes(cell: Cell, options: Audit) -> tuple[dict[str, tuple[Attack, list[Model]]], list[str]]:
    """Name -> an attack and the models it is computed on, one at a time; and the names of the other nets."""
    assert cell.attack is not None
    budget = cell.attack.spec.budget or parse("budgets", default_budget(cell.data.kind))
    plain = cell.attack.spec.model_copy(update={"budget": budget, "through": [], "surrogate": None})
    low, high = BOUNDS[cell.data.kind]

    def probe(search: dict[str, Any], **changes: Any) -> Attack:
        return Attack(plain.model_copy(update={"search": parse("attacks", search), **changes}))

    pgd = {"name": "pgd", "steps": options.steps}
    many = probe(pgd)
    # for any goal: without a limit some wrong prediction must be within reach
    everything = {
        "goal": parse("goals", "untargeted"),
        "budget": parse("budgets", {"name": "linf", "eps": high - low}),
    }
    probes = {
        "noise": (probe({"name": "random_noise"}), [cell.attacked_model]),
        "one_step": (probe({"name": "fgsm"}), [cell.attacked_model]),
        "many_steps": (many, [cell.attacked_model]),
        "anything_allowed": (probe(pgd, **everything), [cell.attacked_model]),
    }
    if cell.model.output == "class" and declared(budget[0]).probed_by_queries:
        # margins may be hidden for long
        square = {"name": "square", "queries": options.queries, "give_up": 0}
        probes["no_gradients"] = (probe(square), [cell.attacked_model])
    if cell.victim is not cell.model and cell.attacked_model is not cell.model:
        probes["undefended"] = (many, [cell.model])
    others = {
        str(spec["name"]): model for spec in options.others if _fits(cell, many, model := cell.open(spec))
    }
    if others:
        probes["transfer"] = (many, list(others.values()))
    return probes, list(others)


def _fits(cell: Cell, attack: Attack, other: Model) -> bool:
    """Whether the other model takes the same samples, has the same classes, and supports the goal."""
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
    """(B,) bool: whether two evaluations differ, whether or not the model is declared random."""
    clean, again = answers_of(clean), answers_of(again)
    if isinstance(clean, Tensor) and isinstance(again, Tensor):
        a, b = clean, again
    else:
        a, b = (outputs.nll(batch.y)[:, None] for outputs in (clean, again))  # type: ignore[union-attr, arg-type]
    return (a - b).abs().amax(1) > SAME * a.abs().amax(1)


def _ascend(problem: Problem, steps: int) -> dict[str, Tensor]:
    """Projected gradient ascent from the clean sample. (steps + 1, B) each: the loss, whether the goal is
    reached, the L2 norm of the gradient, and whether it is zero or not finite."""
    raw: list[Tensor] = []

    def recorded(leaf: Tensor) -> Tensor:
        leaf.register_hook(
            raw.append
        )  # gradients as the model returns them: the problem repairs those that it returns
        return leaf

    x_adv = problem.x.clone()
    path: dict[str, list[Tensor]] = {name: [] for name in ("loss", "reached", "norm", "zero", "broken")}
    for step in range(steps + 1):
        raw.clear()
        gradient, loss, reached = problem.gradient(x_adv, through=recorded)
        unrepaired = torch.stack(raw).flatten(2)  # (draws, B, values)
        path["loss"].append(loss.double())
        path["reached"].append(reached)
        path["norm"].append(gradient.flatten(1).double().norm(dim=1))
        path["zero"].append((unrepaired == 0).all(2).all(0))
        path["broken"].append(~(unrepaired.isfinite().all(2).all(0) & loss.isfinite()))
        x_adv = problem.step(x_adv, gradient, problem.ball.radius * (2.5 / steps)) if step < steps else x_adv
    return {name: torch.stack(values) for name, values in path.items()}


def _summary(path: dict[str, Tensor], steps: int) -> dict[str, Any]:
    """The loss at the marks (None if no sample has a finite one), and the gradients of samples that have not
    reached the goal: beyond it even an honest gradient may vanish."""
    marks = sorted({round(share * steps) for share in MARKS})
    finite = path["loss"].isfinite()
    left = ~path["reached"]
    # near a loss of 0 an honest gradient is near 0 too, and any other is large in comparison
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
