"""Training of the net on the training split of its data, followed by its accuracy.

The accuracy is that of the net behind its defense, if it has one, on the split that the experiment names. The
cell holds weights, history and one row per sample. Training does not use the defense: the weights are those
of the net alone.
"""

import copy
from dataclasses import replace
from typing import ClassVar

from limen.models.training.loop import TrainOptions
from limen.models.training.loop import train as fit
from limen.tasks.accuracy import Accuracy, accuracy
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.task import TaskOptions


class Train(TrainOptions, TaskOptions):
    """Options of a training. The cell's folder receives weights.safetensors and history.json."""

    title: ClassVar[str] = "training"
    trains: ClassVar[bool] = True


def train(cell: Cell, options: Train) -> Outcome:
    model, victim = copy.deepcopy(
        (cell.model, cell.victim)
    )  # other cells use the net too; the victim holds this copy
    history = fit(
        model,
        cell.training(cell.limit),
        cell.validation(cell.limit),
        options,
        cell.folder,
        seed=cell.seed,
        progress=lambda done, text: cell.say(text),
    )
    outcome = accuracy(
        replace(cell, model=model, victim=victim, attacked_model=victim, attack=None, examples=0), Accuracy()
    )
    outcome.result = {"history": history, "weights": "weights.safetensors"}
    return outcome
