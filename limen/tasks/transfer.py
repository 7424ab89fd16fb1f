"""Do adversarial samples made on one net fool others? One row of the matrix proxy x victim per cell.

Chapter 6 of Olivier 2023 (thesis CMU-LTI-23-009): the attack is computed on the cell's net, or on its
surrogates, and each stored sample is judged by every victim. Success rates (equations 6.1 and 6.2) are means
over samples, error rates are pooled: total errors over total words. `success` is the share of samples that
the attack brought to its goal, of those that were not there before for this very victim. Put the net itself
among the victims for the diagonal of the matrix.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from limen.core.components import spec_of
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch, Outputs, Samples
from limen.goals.base.goal import Goal
from limen.metrics.base.apply import columns, measure
from limen.metrics.base.metric import Column
from limen.metrics.base.summary import figure, summarise
from limen.models.base.first_answers import check_answers
from limen.models.base.model import Model, check_fits
from limen.tasks.accuracy import fooled_first
from limen.tasks.base.cell import Cell, Outcome, credit
from limen.tasks.base.columns import TASK_COLUMNS

MEASURED = {
    "transcript": ("wer", "cer", "targeted_success", "untargeted_success"),
    "class": ("correct", "fooled"),
}
FOUND = ("tasr_word", "tasr_char", "uasr_word", "uasr_char", "clean_wer", "wer", "clean_cer", "cer")
"""Columns whose number for the whole set stands in the matrix under its own name."""
ACCURACIES = {"clean_correct": "clean_accuracy", "correct": "accuracy"}


class Victim(Options):
    """A model that never took part in the search."""

    model: Annotated[dict[str, Any], spec_of("models")]
    """The model: {name: deepspeech2, ...its options}."""
    label: str | None = None
    """What tables call it; null takes the model's name."""

    @property
    def name(self) -> str:
        return self.label or str(self.model["name"])


class Transfer(Options):
    victims: list[Victim] = Field(default=[])
    """Models that judge the samples, each {model: {...}, label: ...}; none: only the cell's own net."""
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate only the first so many samples of the data's order; null evaluates all."""

    @model_validator(mode="after")
    def _labels(self) -> "Transfer":
        names = [victim.name for victim in self.victims]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two victims are called {', '.join(twice)}: give each a label of its own.")
        return self


def transfer(cell: Cell, options: Transfer) -> Outcome:
    if cell.attack is None:
        raise UserError("The task transfer needs an attack; leave null out of `attacks`.")
    cell.craft()
    victims = {victim.name: cell.open(victim.model) for victim in options.victims} or {
        cell.proxy: cell.victim
    }
    of_sound = [
        metric for metric in cell.metrics if not metric[1].needs_model
    ]  # the same whoever listens: measured once
    always = MEASURED[cell.model.output]
    of_answers = [
        metric for metric in cell.metrics if metric[1].needs_model and metric[0].name not in always
    ] + cell.rates(*always)
    outcome = Outcome()
    for batch in cell.batches(options.limit_samples):
        for name, victim in victims.items():
            _check(cell, name, victim, batch)
        samples, goal = cell.samples(batch)
        assert goal is not None
        common = measure(samples, of_sound)
        own = [answer | sound for answer, sound in zip(cell.answers(samples), common, strict=True)]
        outcome.examples = fooled_first(cell, outcome.examples, samples, own)
        for name, victim in victims.items():
            judged = _judged(cell, name, victim, samples, goal)
            for answer, sound, said in zip(
                cell.answers(judged), common, measure(judged, of_answers), strict=True
            ):
                outcome.rows.append(
                    {
                        "victim": name,
                        **answer,
                        **sound,
                        **said,
                        "missing": {**sound["missing"], **said["missing"]},
                    }
                )
        cell.advance(len(batch))
    shown = {**TASK_COLUMNS, **columns(of_answers)}
    found = {name: _found([r for r in outcome.rows if r["victim"] == name], shown) for name in victims}
    outcome.result = {"proxy": cell.proxy, "victims": found}
    return outcome


def _judged(cell: Cell, name: str, victim: Model, samples: Samples, goal: Goal) -> Samples:
    """The stored samples as this victim answers them."""
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
        check_answers(victim, batch)
    except UserError as error:
        raise UserError(f"The victim {name} cannot judge these samples. {error}") from None
    if victim.classes != cell.model.classes:
        raise UserError(
            f"The victim {name} knows the classes {_some(victim.classes)}, but the net "
            f"{_some(cell.model.classes)}: their answers cannot be compared. Choose victims with the same "
            "classes in the same order."
        )


def _check_languages(name: str, goal: Goal, proxy: Outputs | None, victim: Outputs) -> None:
    """A goal that names a language counts it in the proxy's list."""
    mine, theirs = (getattr(outputs, "languages", None) for outputs in (proxy, victim))
    if mine and goal.targeted and goal.target is None and mine != theirs:
        raise UserError(
            f"The goal asks for a language, but the victim {name} knows {_some(theirs)} and the proxy "
            f"{_some(mine)}. Choose victims with the same languages, or a goal about transcripts."
        )


def _some(names: Sequence[str] | None) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''} ({len(names)})" if names else "none"


def _found(rows: list[dict[str, Any]], shown: dict[str, Column]) -> dict[str, Any]:
    """What one victim made of the set: its n, its success with interval and number of samples, and every rate
    as all summaries count it."""
    stats = summarise(rows, {name: column for name, column in shown.items() if name in rows[0]})
    rate, low, high = figure(stats["success"])
    found = {
        "n": len(rows),
        "success": rate,
        "success_low": low,
        "success_high": high,
        "success_n": stats["success"]["n"],
    }
    found |= {
        name: value for name in FOUND if name in stats and (value := figure(stats[name])[0]) is not None
    }
    return found | {name: figure(stats[column])[0] for column, name in ACCURACIES.items() if column in stats}
