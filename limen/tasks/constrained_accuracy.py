"""Accuracy, error rates and fooling rate against the size of the perturbation: one curve per cell.

Attacks with a budget run again at every size; attacks that search for the smallest change, and universal
perturbations, run once and are scaled to each size (section 5.3 of the thesis of CrAdv; figure 2 of Vadillo
and Santana 2021). Recognisers get pooled word and character error rates (total errors over total words). The
control, a second curve, adds white Gaussian noise to each sample, with the L2 norm of the attack's change.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from limen.attacks.engine.run import Attack
from limen.attacks.shared.rescale import rescale
from limen.core import seeds
from limen.core.components import Component, parse
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.statistics import pooled, wilson
from limen.core.types import BOUNDS, Batch, Samples
from limen.metrics.base.apply import columns_of, measure
from limen.metrics.base.metric import Column
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.noise_control import equal_noise
from limen.tasks.base.task import TaskOptions

Constraint = Literal["dissimilarity", "l2", "linf", "peak_db", "snr_db"]
RATES = ("wer", "cer")
"""Metrics of the curves of recognisers."""


class ConstrainedAccuracy(TaskOptions):
    title: ClassVar[str] = "accuracy under a constraint"
    needs_attack: ClassVar[bool] = True
    audited: ClassVar[bool] = True
    constraint: Constraint = "dissimilarity"
    """Quantity that is limited: ||delta||_2 / ||x||_2, a norm, the peak of the perturbation in dB, or the
    signal-to-noise ratio in dB."""
    values: list[float] = Field(default=[0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06], min_length=1)
    """Values of the constraint. 0 of a norm or a dissimilarity means no change."""
    how: Literal["auto", "budget", "rescale"] = "auto"
    """"budget": run the attack again under this constraint at each value; "rescale": run it once and scale
    its perturbation; "auto": "budget" for attacks that have a budget, "rescale" for others and universal
    ones."""
    control: bool = True
    """Also judge the same samples with Gaussian noise of the same energy: a second curve."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate at most this many samples, the first in the order of the data; null evaluates all."""

    @model_validator(mode="after")
    def _sizes(self) -> "ConstrainedAccuracy":
        if self.constraint in ("dissimilarity", "l2", "linf") and min(self.values) < 0:
            raise ValueError(f"values of {self.constraint} must not be negative, got {min(self.values)}.")
        return self

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
        options.how == "auto" and cell.attack.budget is not None and not cell.attack.universal
    )
    held = {value: _held(options.constraint, value) for value in options.values}
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    for batch in cell.batches(options.limit_samples):
        attacked, goal = (None, None) if again else cell.samples(batch)
        for value in options.values:
            if again:
                samples = _attacked(cell, batch, options.constraint, value)
            else:
                assert attacked is not None
                x_adv = rescale(batch.x, attacked.x_adv, options.constraint, value, batch.lengths)
                samples = cell.judge(attacked, x_adv.clamp(*BOUNDS[batch.kind]), goal, held[value])
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
        "constraint": options.constraint,
        "values": options.values,
        "n": len(rows) // len(options.values),
        "by_class": _by_class(options.values, rows) if cell.model.output == "class" else {},
        **_curve(options.values, rows),
    }
    if options.control:
        curve["control"] = {"name": "gaussian noise", **_curve(options.values, controls)}
    return Outcome(rows, curve)


def _rows(cell: Cell, samples: Samples, value: float) -> list[dict[str, Any]]:
    """The model's predictions at this value of the constraint, and their errors."""
    right, moved = cell.right(samples).tolist(), cell.moved(samples).tolist()
    error_rates = (
        measure(samples, cell.rates(*RATES)) if cell.model.output == "transcript" else [{} for _ in right]
    )
    return [
        row | errors | {"value": value, "correct": right[i], "fooled": moved[i]}
        for i, (row, errors) in enumerate(zip(cell.answers(samples), error_rates, strict=True))
    ]


def _attacked(cell: Cell, batch: Batch, constraint: str, value: float) -> Samples:
    """The attack run again at this value; 0 leaves the samples unchanged."""
    assert cell.attack is not None
    if value == 0 and constraint not in ("peak_db", "snr_db"):
        return replace(cell, attack=None).samples(batch)[0]
    return cell.samples(batch, _under(cell.attack, constraint, value))[0]


def _held(constraint: str, value: float) -> tuple[Component, Options] | None:
    """The budget that stored samples keep; size 0 of a norm changes nothing that could be rounded."""
    return (
        parse("budgets", _spec(constraint, value))
        if value != 0 or constraint in ("peak_db", "snr_db")
        else None
    )


def _under(attack: Attack, constraint: str, value: float) -> Attack:
    """The same search under the constraint at this value."""
    return attack.under(_spec(constraint, value))


def _spec(constraint: str, value: float) -> dict[str, Any]:
    """The constraint as a budget. A dissimilarity d is a signal-to-noise ratio of -20 log10 d."""
    snr_db = -20 * math.log10(value) if constraint == "dissimilarity" else value
    return {
        "dissimilarity": {"name": "snr", "snr_db": snr_db},
        "l2": {"name": "l2", "eps": value},
        "linf": {"name": "linf", "eps": value},
        "peak_db": {"name": "peak_db", "peak_db": value},
        "snr_db": {"name": "snr", "snr_db": value},
    }[constraint]


def _curve(values: list[float], rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """A number per value: the accuracy with its interval, the fooling rate, and the pooled error rates of
    recognisers with theirs."""
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
    """Class -> its fooling rate at each value; empty for more than 50 classes, whose curves are
    unreadable."""
    labels = sorted({row["label"] for row in rows})
    fooled: dict[tuple[str, float], list[bool]] = {(label, value): [] for label in labels for value in values}
    for row in rows:
        fooled[row["label"], row["value"]].append(row["fooled"])
    return (
        {label: [sum(fooled[label, v]) / len(fooled[label, v]) for v in values] for label in labels}
        if len(labels) <= 50
        else {}
    )
