"""Accuracy, error rates and fooling rate against the size of the perturbation: one curve per cell, beside
that of noise of equal energy.

Searches under a budget run again at every size; searches for the smallest change, and universal
perturbations, run once and are scaled to the size (section 5.3 of the thesis of CrAdv; figure 2 of Vadillo
and Santana 2021). Recognisers get pooled word and character error rates (total errors over total words). The
control adds to each sample white Gaussian noise with the L2 norm of the very change the attack made to it.
"""

import math
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from limen.attacks.engine.run import Attack
from limen.attacks.shared.rescale import rescale
from limen.core import seeds
from limen.core.components import Component, parse
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.statistics import pooled, wilson
from limen.core.types import BOUNDS, Batch, Samples
from limen.metrics.base.apply import measure
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.noise_control import equal_noise

Constraint = Literal["dissimilarity", "l2", "linf", "peak_db", "snr_db"]


class ConstrainedAccuracy(Options):
    constraint: Constraint = "dissimilarity"
    """What is held at each value: ||delta||_2 / ||x||_2, a norm, the peak of the perturbation in dB, or the
    signal-to-noise ratio in dB."""
    values: list[float] = Field(default=[0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06], min_length=1)
    """Sizes to try. Size 0 of a norm or a dissimilarity means no change at all."""
    how: Literal["auto", "budget", "rescale"] = "auto"
    """"budget": run the attack anew under this constraint at each value; "rescale": run it once and scale its
    perturbation; "auto": budget for attacks that have one, rescale for the rest and for universal ones."""
    control: bool = True
    """Judge the same samples with Gaussian noise of the same energy too: a second curve."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate only the first so many samples of the data's order; null evaluates all."""

    @model_validator(mode="after")
    def _sizes(self) -> "ConstrainedAccuracy":
        if self.constraint in ("dissimilarity", "l2", "linf") and min(self.values) < 0:
            raise ValueError(
                f"values of {self.constraint} must not be negative, but {min(self.values)} came."
            )
        return self


def cost(options: ConstrainedAccuracy, attack: float) -> float:
    """In gradients."""
    return attack * len(options.values)


def constrained_accuracy(cell: Cell, options: ConstrainedAccuracy) -> Outcome:
    if cell.attack is None:
        raise UserError("The task constrained_accuracy needs an attack; leave null out of `attacks`.")
    cell.craft()
    again = options.how == "budget" or (
        options.how == "auto" and cell.attack.spec.budget is not None and not cell.attack.universal
    )
    held = {value: _held(options.constraint, value) for value in options.values}
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    for batch in cell.batches(options.limit_samples):
        whole, goal = (None, None) if again else cell.samples(batch)
        for value in options.values:
            if again:
                samples = _attacked(cell, batch, options.constraint, value)
            else:
                assert whole is not None
                x_adv = rescale(batch.x, whole.x_adv, options.constraint, value, batch.lengths)
                samples = cell.judge(whole, x_adv.clamp(*BOUNDS[batch.kind]), goal, held[value])
            found = _rows(cell, samples, value)
            if options.control:
                noise = equal_noise(
                    batch, samples.x_adv, seeds.generators(cell.seed, batch.ids, "control"), cell.store
                )
                here = _rows(cell, cell.judge(samples, noise, None), value)
                found = [
                    row | {"control_prediction": other["adversarial_prediction"]}
                    for row, other in zip(found, here, strict=True)
                ]
                controls += here
            rows += found
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
    """What the model said at this size, and the errors in it."""
    right, moved = cell.right(samples).tolist(), cell.moved(samples).tolist()
    counted = (
        measure(samples, cell.rates("wer", "cer"))
        if cell.model.output == "transcript"
        else [{} for _ in right]
    )
    return [
        row | errors | {"value": value, "correct": right[i], "fooled": moved[i]}
        for i, (row, errors) in enumerate(zip(cell.answers(samples), counted, strict=True))
    ]


def _attacked(cell: Cell, batch: Batch, constraint: str, value: float) -> Samples:
    """The attack run anew at this size; size 0 leaves the samples as they are."""
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
                whole = pooled([row[f"{unit}_errors"] for row in here], [row[f"{unit}s"] for row in here])
                point |= {rate: whole["mean"], f"{rate}_low": whole["low"], f"{rate}_high": whole["high"]}
        for key, number in point.items():
            curve.setdefault(key, []).append(number)
    return curve


def _by_class(values: list[float], rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Class -> its fooling rate at each value; of more than 50 classes nobody could read the curves."""
    labels = sorted({row["label"] for row in rows})
    fooled: dict[tuple[str, float], list[bool]] = {(label, value): [] for label in labels for value in values}
    for row in rows:
        fooled[row["label"], row["value"]].append(row["fooled"])
    return (
        {label: [sum(fooled[label, v]) / len(fooled[label, v]) for v in values] for label in labels}
        if len(labels) <= 50
        else {}
    )
