"""Training of the net on the training split of its data, followed by its accuracy.

The accuracy is that of the net behind its defense, if it has one, on the split that the experiment names. The
cell holds weights, history and one row per sample. The weights are those of the net alone, trained under the
objective of the options or of a defense that changes the training.
"""

import copy
from dataclasses import replace
from typing import Any, ClassVar

from limen.core.errors import UserError
from limen.defenses.base.compose import training_of
from limen.models.training.loop import train as fit
from limen.models.training.options import TrainOptions
from limen.objectives.base.objective import objective_for
from limen.tasks.accuracy import Accuracy, accuracy
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.task import TaskOptions


class Train(TrainOptions, TaskOptions):
    """Options of a training. The cell's folder receives weights.safetensors and history.json."""

    title: ClassVar[str] = "training"
    trains: ClassVar[bool] = True


def train(cell: Cell, options: Train) -> Outcome:
    # the net of the other cells must stay unchanged; the victim holds this copy
    model, victim = copy.deepcopy((cell.model, cell.victim))
    history = fit(
        model,
        cell.training(cell.limit),
        cell.validation(cell.limit),
        options,
        cell.folder,
        objective=objective_for(model, _objective(cell, options)),
        spec=cell.net,
        seed=cell.seed,
        progress=lambda done, text: cell.say(text),
    )
    outcome = accuracy(
        replace(cell, model=model, victim=victim, attacked_model=victim, attack=None, examples=0), Accuracy()
    )
    outcome.result = {"history": history, "weights": "weights.safetensors"}
    return outcome


def _objective(cell: Cell, options: Train) -> dict[str, Any] | None:
    """The objective of the options, or that of a defense which changes the training."""
    changed = training_of(cell.defenses)
    if changed is None:
        return options.objective
    if options.objective is not None:
        raise UserError(
            f"The task train has the objective {options.objective['name']}, but a defense of the cell trains "
            f"under {changed['name']}. Leave out one of the two."
        )
    return changed
