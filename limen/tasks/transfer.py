"""Transfer of adversarial samples between models: one row of the matrix proxy x victim per cell.

Chapter 6 of Olivier 2023 (thesis CMU-LTI-23-009): the attack is computed on the cell's net, or on its
surrogates, and each stored sample is judged by every victim. Success rates (equations 6.1 and 6.2) are means
over samples, error rates are pooled: total errors over total words. `success` is the share of samples for
which the attack reached its goal, of those for which this victim was not at the goal before. Put the net
itself among the victims for the diagonal of the matrix.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from limen.core.components import spec_of
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch, Outputs, Samples
from limen.goals.base.goal import Goal
from limen.metrics.base.apply import columns, columns_of, measure
from limen.metrics.base.metric import Column
from limen.metrics.base.summary import figure, summarise
from limen.models.base.model import Model, check_fits
from limen.models.base.output_check import check_outputs
from limen.tasks.base.cell import Cell, Outcome, credit
from limen.tasks.base.columns import TASK_COLUMNS, all_columns
from limen.tasks.base.evaluation import examples_of, successes_first
from limen.tasks.base.task import TaskOptions

MEASURED = {
    "transcript": ("wer", "cer", "targeted_success", "untargeted_success"),
    "class": ("correct", "fooled"),
}
"""Output of the net -> metrics that are measured for every victim."""
ACCURACIES = {"clean_correct": "clean_accuracy", "correct": "accuracy"}


class Victim(Options):
    """A model that is not used in the search."""

    model: Annotated[dict[str, Any], spec_of("models")]
    """The model: {name: deepspeech2, ...its options}."""
    label: str | None = None
    """Name in tables; null takes the name of the model."""

    @property
    def name(self) -> str:
        return self.label or str(self.model["name"])


class Transfer(TaskOptions):
    title: ClassVar[str] = "transfer between models"
    needs_attack: ClassVar[bool] = True
    victims: list[Victim] = Field(default=[])
    """Models that judge the samples, each {model: {...}, label: ...}; empty: only the cell's own net."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate at most this many samples, the first in the order of the data; null evaluates all."""

    @model_validator(mode="after")
    def _labels(self) -> "Transfer":
        names = [victim.name for victim in self.victims]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two victims have the name {', '.join(twice)}: give each a label of its own.")
        return self

    def columns(self) -> dict[str, Column]:
        measured = columns_of(*(name for names in MEASURED.values() for name in names))
        return {
            "victim": Column("the model that judged the sample", heading="Victim", figure="none"),
            **measured,
        }


def transfer(cell: Cell, options: Transfer) -> Outcome:
    if cell.attack is None:
        raise UserError("The task transfer needs an attack; leave null out of `attacks`.")
    if cell.model.output not in MEASURED:
        raise UserError(
            f"The task transfer compares {' or '.join(MEASURED)} outputs, but this net gives a "
            f"{cell.model.output}. Use a classifier or a recogniser."
        )
    cell.craft()
    victims = {victim.name: cell.open(victim.model) for victim in options.victims} or {
        cell.proxy: cell.victim
    }
    distortions = [metric for metric in cell.metrics if not metric[1].needs_model]  # equal for all victims
    always = MEASURED[cell.model.output]
    others = [m for m in cell.metrics if m[1].needs_model and m[0].name not in always]
    of_outputs = [*others, *cell.rates(*always)]
    outcome, keep = Outcome(), successes_first(cell.examples)
    for batch in cell.batches(options.limit_samples):
        for name, victim in victims.items():
            _check(cell, name, victim, batch)
        samples, goal = cell.samples(batch)
        assert goal is not None
        distortion = measure(samples, distortions)
        own = [answer | row for answer, row in zip(cell.answers(samples), distortion, strict=True)]
        outcome.examples = keep(outcome.examples + examples_of(samples, own))
        for name, victim in victims.items():
            judged = _judge(cell, name, victim, samples, goal)
            measured = zip(cell.answers(judged), distortion, measure(judged, of_outputs), strict=True)
            for answer, change, scores in measured:
                missing = {**change["missing"], **scores["missing"]}
                outcome.rows.append({"victim": name, **answer, **change, **scores, "missing": missing})
        cell.advance(len(batch))
    shown = {**TASK_COLUMNS, **options.columns(), **columns([*distortions, *of_outputs])}
    of_victim = {name: [row for row in outcome.rows if row["victim"] == name] for name in victims}
    results = {name: _result(cell, rows, shown, columns(of_outputs)) for name, rows in of_victim.items()}
    outcome.result = {"proxy": cell.proxy, "victims": results}
    return outcome


def _judge(cell: Cell, name: str, victim: Model, samples: Samples, goal: Goal) -> Samples:
    """The stored samples with the outputs of this victim."""
    clean, adversarial = (
        cell.answer(victim, samples.batch.x, samples.batch, "clean"),
        cell.answer(victim, samples.x_adv, samples.batch, "judge"),
    )
    _check_languages(name, goal, samples.clean, clean)
    return replace(
        samples, clean=clean, adversarial=adversarial, extra=credit(goal, clean, goal.judged(adversarial))
    )


def _check(cell: Cell, name: str, victim: Model, batch: Batch) -> None:
    if victim.rate_hz not in (None, cell.data.rate_hz):
        raise UserError(
            f"The victim {name} takes clips at {victim.rate_hz} Hz, but the samples were made at "
            f"{cell.data.rate_hz} Hz. Choose victims of the proxy's rate: resampling would change the "
            "perturbation."
        )
    try:
        check_fits(victim, batch)
        check_outputs(victim, batch)
    except UserError as error:
        raise UserError(f"The victim {name} cannot evaluate these samples. {error}") from None
    if victim.classes != cell.model.classes:
        raise UserError(
            f"The victim {name} has the classes {_some(victim.classes)}, but the net "
            f"{_some(cell.model.classes)}: their answers cannot be compared. Choose victims with the same "
            "classes in the same order."
        )


def _check_languages(name: str, goal: Goal, proxy: Outputs | None, victim: Outputs) -> None:
    """Refuses a victim with other languages: a goal that names one holds its index in the proxy's list."""
    mine, theirs = (getattr(outputs, "languages", None) for outputs in (proxy, victim))
    if mine and goal.targeted and goal.target is None and mine != theirs:
        raise UserError(
            f"The goal names a language, but the victim {name} has {_some(theirs)} and the proxy "
            f"{_some(mine)}. Choose victims with the same languages, or a goal about transcripts."
        )


def _some(names: Sequence[str] | None) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''} ({len(names)})" if names else "none"


def _result(
    cell: Cell, rows: list[dict[str, Any]], declared: dict[str, Column], of_outputs: dict[str, Column]
) -> dict[str, Any]:
    """Summary of one victim: its n, its success with interval and number of samples, the figure of every
    column that depends on its outputs, and under `columns` all summaries."""
    stats = summarise(rows, all_columns(rows, declared), cell.data.kind, cell.model.output)
    rate, low, high = figure(stats["success"])
    result = {
        "n": len(rows),
        "success": rate,
        "success_low": low,
        "success_high": high,
        "success_n": stats["success"]["n"],
    }
    figures = {name: figure(stats[name])[0] for name in of_outputs if name in stats}
    result |= {ACCURACIES.get(name, name): value for name, value in figures.items() if value is not None}
    return result | {"columns": stats}
