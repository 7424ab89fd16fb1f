"""Accuracy and fooling rate against the size of the perturbation: one curve per cell.

Searches under a budget run again at every size; searches for the smallest change, and universal perturbations, run once and are
scaled to the size (section 5.3 of the thesis of CrAdv; figure 2 of Vadillo and Santana 2021).
"""

import math
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from limen.attacks._rescale import rescale
from limen.attacks._run import Attack
from limen.components import parse
from limen.errors import UserError
from limen.options import Options
from limen.statistics import wilson
from limen.tasks._cell import Cell, Outcome
from limen.types import BOUNDS, Batch, Samples

Constraint = Literal["dissimilarity", "l2", "linf", "peak_db", "snr_db"]


class ConstrainedAccuracy(Options):
    constraint: Constraint = "dissimilarity"
    """What is held at each value: ||delta||_2 / ||x||_2, a norm, the peak of the perturbation in dB, or the signal-to-noise ratio in dB."""
    values: list[float] = Field(default=[0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06], min_length=1)
    """Sizes to try. Size 0 of a norm or a dissimilarity means no change at all."""
    how: Literal["auto", "budget", "rescale"] = "auto"
    """"budget": run the attack anew under this constraint at each value; "rescale": run it once and scale its perturbation;
    "auto": budget for attacks that have one, rescale for the rest and for universal ones."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate only the first so many samples of the data's order; null evaluates all."""

    @model_validator(mode="after")
    def _sizes(self) -> "ConstrainedAccuracy":
        if self.constraint in ("dissimilarity", "l2", "linf") and min(self.values) < 0:
            raise ValueError(f"values of {self.constraint} must not be negative, but {min(self.values)} came.")
        return self


def constrained_accuracy(cell: Cell, options: ConstrainedAccuracy) -> Outcome:
    if cell.attack is None:
        raise UserError("The task constrained_accuracy needs an attack; leave null out of `attacks`.")
    cell.craft()
    again = options.how == "budget" or (options.how == "auto" and cell.attack.budget is not None and not cell.attack.universal)
    rows: list[dict[str, Any]] = []
    for batch in cell.batches(options.limit_samples):
        whole, goal = (None, None) if again else cell.samples(batch)
        for value in options.values:
            if again:
                samples = _attacked(cell, batch, options.constraint, value)
            else:
                assert whole is not None
                x_adv = rescale(batch.x, whole.x_adv, options.constraint, value, batch.lengths)
                samples = cell.judge(whole, x_adv.clamp(*BOUNDS[batch.kind]), goal)
            right, moved = cell.right(samples).tolist(), cell.moved(samples).tolist()
            rows += [row | {"value": value, "correct": right[i], "fooled": moved[i]} for i, row in enumerate(cell.answers(samples))]
        cell.advance(len(batch))
    return Outcome(rows, _curve(options, rows))


def _attacked(cell: Cell, batch: Batch, constraint: str, value: float) -> Samples:
    """The attack run anew at this size; size 0 leaves the samples as they are."""
    assert cell.attack is not None
    if value == 0 and constraint not in ("peak_db", "snr_db"):
        return replace(cell, attack=None).samples(batch)[0]
    return cell.samples(batch, _under(cell.attack, constraint, value))[0]


def _under(attack: Attack, constraint: str, value: float) -> Attack:
    """The same search under the constraint at this value. A dissimilarity d is a signal-to-noise ratio of -20 log10 d."""
    snr_db = -20 * math.log10(value) if constraint == "dissimilarity" else value
    spec = {"dissimilarity": {"name": "snr", "snr_db": snr_db}, "l2": {"name": "l2", "eps": value}, "linf": {"name": "linf", "eps": value},
            "peak_db": {"name": "peak_db", "peak_db": value}, "snr_db": {"name": "snr", "snr_db": value}}[constraint]  # fmt: skip
    return Attack(attack.search, attack.options, attack.goal, parse("budgets", spec))


def _curve(options: ConstrainedAccuracy, rows: list[dict[str, Any]]) -> dict[str, Any]:
    curve: dict[str, Any] = {"constraint": options.constraint, "values": options.values, "accuracy": [], "low": [], "high": [],
                             "fooling_rate": [], "by_class": {}, "n": len(rows) // len(options.values)}  # fmt: skip
    labels = sorted({row["label"] for row in rows})
    for value in options.values:
        here = [row for row in rows if row["value"] == value]
        right = sum(row["correct"] for row in here)
        low, high = wilson(right, len(here))
        curve["accuracy"].append(right / len(here))
        curve["low"].append(low)
        curve["high"].append(high)
        curve["fooling_rate"].append(sum(row["fooled"] for row in here) / len(here))
        if len(labels) <= 50:  # classes, not transcripts
            for label in labels:
                mine = [row["fooled"] for row in here if row["label"] == label]
                curve["by_class"].setdefault(label, []).append(sum(mine) / len(mine))
    return curve
