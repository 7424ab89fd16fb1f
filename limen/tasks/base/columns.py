"""Columns of the rows of every task, and the columns of a set of rows that no component declares."""

from collections.abc import Mapping, Sequence
from typing import Any

from limen.metrics.base.metric import Column

TEXT: Any = {"figure": "none"}

TASK_COLUMNS: dict[str, Column] = {
    "label": Column("the true class or transcript", heading="Label", **TEXT),
    "target": Column("the class or transcript the attacker wants", heading="Target", **TEXT),
    "clean_prediction": Column("the model's prediction for the clean sample", heading="Clean", **TEXT),
    "adversarial_prediction": Column(
        "the model's prediction for the adversarial sample", heading="Adversarial", **TEXT
    ),
    "language": Column("the true language of the clip", heading="Language", **TEXT),
    "clean_language": Column("the language detected in the clean clip", heading="Clean language", **TEXT),
    "adversarial_language": Column(
        "the language detected in the adversarial clip", heading="Adversarial language", **TEXT
    ),
    "already": Column(
        "the clean sample was at the attack's goal before anything was changed",
        heading="Already",
        binary=True,
    ),
    "correct": Column(
        "the prediction for the adversarial sample is right",
        better="higher",
        heading="Correct",
        headline=True,
        binary=True,
    ),
    "success": Column(
        "the attack reached its goal, among samples that were not at the goal before",
        better="lower",
        heading="Success",
        headline=True,
        needs_attack=True,
        binary=True,
        unless="already",
    ),
    "fooled": Column(
        "the attack changed the prediction",
        better="lower",
        heading="Fooled",
        headline="transcript",
        needs_attack=True,
        binary=True,
    ),
    "over_the_air": Column(
        "share of fresh draws of the transforms in which the attack reached its goal",
        better="lower",
        heading="Over the air",
        headline=True,
        needs_attack=True,
        share=True,
    ),
    "clean_over_the_air": Column(
        "share of these draws in which the clean sample reached the goal through the transforms alone",
        better="lower",
        heading="Over the air, clean",
        headline=True,
        share=True,
    ),
    "clean_refused": Column(
        "a detector refuses the clean sample", better="lower", heading="Clean refused", binary=True
    ),
    "refused": Column(
        "a detector refuses the adversarial sample",
        better="higher",
        heading="Refused",
        headline=True,
        binary=True,
    ),
    "forward_calls": Column("forward passes of the attack", heading="Forward passes", format="n"),
    "backward_calls": Column("gradients of the attack", heading="Gradients", format="n"),
    "dead_gradients": Column(
        "gradients that were zero or not finite", better="lower", heading="Dead gradients", format="n"
    ),
}
"""Columns that the cell of an experiment adds to those of the metrics."""

NOT_COLUMNS = ("id", "missing")


def all_columns(rows: Sequence[Mapping[str, Any]], declared: Mapping[str, Column]) -> dict[str, Column]:
    """Every column of the rows, those of `declared` first; undeclared ones are kept."""
    present = dict.fromkeys(name for row in rows for name in row if name not in NOT_COLUMNS)
    known = {name: column for name, column in declared.items() if name in present}
    return known | {name: undeclared(name, rows) for name in present if name not in known}


def undeclared(name: str, rows: Sequence[Mapping[str, Any]]) -> Column:
    """A column that no component declares: truth values get a share, numbers a mean and a median."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if values and all(isinstance(value, bool) for value in values):
        return Column(name, binary=True)
    if values and all(isinstance(value, int | float) for value in values):
        return Column(name)
    return Column(name, figure="none")
