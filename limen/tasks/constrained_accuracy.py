"""Accuracy, error rates and fooling rate against the size of the perturbation: one curve per cell.

Attacks with a budget run again at every size; attacks that search for the smallest change, and universal
perturbations, run once and are scaled to each size (section 5.3 of the thesis of CrAdv; figure 2 of Vadillo
and Santana 2021). Recognisers get pooled word and character error rates (total errors over total words). The
control, a second curve, adds white Gaussian noise to each sample, with the L2 norm of the attack's change.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor

from limen.budgets.families.options import bounded, budget_facts, declared
from limen.core import seeds
from limen.core.components import Component, load
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.statistics import pooled, wilson
from limen.core.types import BOUNDS, Batch, Samples, valid
from limen.metrics.base.apply import columns_of, measure
from limen.metrics.base.metric import Column
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.noise_control import equal_noise
from limen.tasks.base.task import TaskOptions

RATES = ("wer", "cer")
"""Metrics of the curves of recognisers."""


class ConstrainedAccuracy(TaskOptions):
    title: ClassVar[str] = "accuracy under a constraint"
    needs_attack: ClassVar[bool] = True
    audited: ClassVar[bool] = True
    constraint: str | dict[str, Any] = "dissimilarity"
    """The budget whose bound takes each of the values: its name, or {name: local_linf, window: 7} without the
    bound."""
    values: list[float] = Field(default=[0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06], min_length=1)
    """Bounds to try. 0 means no change, except for bounds in decibels."""
    how: Literal["auto", "budget", "rescale"] = "auto"
    """"budget": run the attack again under this constraint at each value; "rescale": run it once and scale
    its perturbation; "auto": budget for attacks that have one, rescale for the others and for universal
    ones."""
    control: bool = True
    """Also judge the same samples with Gaussian noise of the same energy: a second curve."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate at most this many samples, the first in the order of the data; null evaluates all."""

    @model_validator(mode="after")
    def _valid(self) -> "ConstrainedAccuracy":
        try:
            self.budgets()
            if self.how == "rescale" and not declared(self.component).scalable:
                raise UserError(
                    f"A perturbation cannot be scaled to a bound of {self.component.name}: set how to budget."
                )
        except UserError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def spec(self) -> dict[str, Any]:
        """The budget without its bound."""
        return {"name": self.constraint} if isinstance(self.constraint, str) else self.constraint

    @property
    def component(self) -> Component:
        """The budget."""
        return load("budgets", str(self.spec.get("name")))

    def budgets(self) -> dict[float, tuple[Component, Options] | None]:
        """Value -> the budget with this bound; None if nothing may change there."""
        return {value: bounded(self.spec, value) for value in self.values}

    def sets_budget(self) -> bool:
        return self.how == "budget"

    def repeats(self) -> int:
        return len(self.values)

    def columns(self) -> dict[str, Column]:
        return {
            "value": Column("value of the constraint", heading="Value"),
            "control_prediction": Column(
                "the model's prediction for the sample with noise", heading="Noise", figure="none"
            ),
            **columns_of(*RATES),
        }


def constrained_accuracy(cell: Cell, options: ConstrainedAccuracy) -> Outcome:
    if cell.attack is None:
        raise UserError("The task constrained_accuracy needs an attack; leave null out of `attacks`.")
    cell.craft()
    again = options.how == "budget" or (
        options.how == "auto" and cell.attack.spec.budget is not None and not cell.attack.universal
    )
    if not again and not declared(options.component).scalable:
        raise UserError(
            f"The attack {cell.attack.spec.name} has no budget, so its perturbation is scaled to each "
            f"value, which the budget {options.component.name} does not allow. Choose another constraint."
        )
    budgets = options.budgets()
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    for batch in cell.batches(options.limit_samples):
        unscaled, goal = (None, None) if again else cell.samples(batch)
        for value in options.values:
            budget = budgets[value]
            if unscaled is None:
                samples = _attacked(cell, batch, budget)
            else:
                x_adv = _scaled(cell, unscaled, budget)
                samples = cell.judge(unscaled, x_adv.clamp(*BOUNDS[batch.kind]), goal, budget)
            at_value = _rows(cell, samples, value)
            if options.control:
                noise = equal_noise(
                    batch, samples.x_adv, seeds.generators(cell.seed, batch.ids, "control"), cell.store
                )
                with_noise = _rows(cell, cell.judge(samples, noise, None), value)
                at_value = [
                    row | {"control_prediction": other["adversarial_prediction"]}
                    for row, other in zip(at_value, with_noise, strict=True)
                ]
                controls += with_noise
            rows += at_value
        cell.advance(len(batch))
    curve: dict[str, Any] = {
        "constraint": declared(options.component).column or options.component.name,
        "budget_info": budget_facts(options.component),
        "values": options.values,
        "n": len(rows) // len(options.values),
        "by_class": _by_class(options.values, rows) if cell.model.output == "class" else {},
        **_curve(options.values, rows),
    }
    if options.control:
        curve["control"] = {"name": "gaussian noise", **_curve(options.values, controls)}
    return Outcome(rows, curve)


def _rows(cell: Cell, samples: Samples, value: float) -> list[dict[str, Any]]:
    """The predictions at this size, and their errors."""
    right, moved = cell.right(samples).tolist(), cell.moved(samples).tolist()
    error_rates = (
        measure(samples, cell.rates(*RATES)) if cell.model.output == "transcript" else [{} for _ in right]
    )
    return [
        row | errors | {"value": value, "correct": right[i], "fooled": moved[i]}
        for i, (row, errors) in enumerate(zip(cell.answers(samples), error_rates, strict=True))
    ]


def _attacked(cell: Cell, batch: Batch, budget: tuple[Component, Options] | None) -> Samples:
    """The attack run again under this budget; None leaves the samples unchanged."""
    assert cell.attack is not None
    if budget is None:
        return replace(cell, attack=None).samples(batch)[0]
    return cell.samples(batch, cell.attack.under({"name": budget[0].name, **budget[1].model_dump()}))[0]


def _scaled(cell: Cell, samples: Samples, budget: tuple[Component, Options] | None) -> Tensor:
    """x + s * (x_adv - x), with the one s >= 0 per sample for which the change has exactly the size of the
    bound. No change stays none; padding is neither changed nor measured. The range of samples is not
    enforced, because clipping would make the size smaller."""
    batch = samples.batch
    around = cell.budget_around(batch.x, batch, budget)
    if around is None:
        return batch.x
    mask = valid(batch.x, batch.lengths)
    change = samples.x_adv - batch.x
    return batch.x + around.fill(change if mask is None else change * mask)


def _curve(values: list[float], rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """One number per value: the accuracy with its interval, the fooling rate, and for recognisers the pooled
    error rates with theirs."""
    curve: dict[str, list[float | None]] = {}
    for value in values:
        here = [row for row in rows if row["value"] == value]
        right = sum(row["correct"] for row in here)
        low, high = wilson(right, len(here))
        point = {
            "accuracy": right / len(here),
            "low": low,
            "high": high,
            "fooling_rate": sum(row["fooled"] for row in here) / len(here),
        }
        for rate, unit in (("wer", "word"), ("cer", "character")):
            if f"{unit}_errors" in here[0]:
                of_set = pooled([row[f"{unit}_errors"] for row in here], [row[f"{unit}s"] for row in here])
                point |= {rate: of_set["mean"], f"{rate}_low": of_set["low"], f"{rate}_high": of_set["high"]}
        for key, number in point.items():
            curve.setdefault(key, []).append(number)
    return curve


def _by_class(values: list[float], rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Class -> its fooling rate at each value; {} for more than 50 classes, too many curves to read."""
    labels = sorted({row["label"] for row in rows})
    fooled: dict[tuple[str, float], list[bool]] = {(label, value): [] for label in labels for value in values}
    for row in rows:
        fooled[row["label"], row["value"]].append(row["fooled"])
    return (
        {label: [sum(fooled[label, v]) / len(fooled[label, v]) for v in values] for label in labels}
        if len(labels) <= 50
        else {}
    )
