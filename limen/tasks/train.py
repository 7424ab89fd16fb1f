"""Trains the net on the training part of its data and judges it, behind its defense if it has one, on the
part the file names.

The cell leaves weights, history and one row per sample. Training itself never sees the defense: the weights
are those of the net alone."""

import copy
from dataclasses import replace

from limen.models.training.loop import TrainOptions
from limen.models.training.loop import train as fit
from limen.tasks.accuracy import Accuracy, accuracy
from limen.tasks.base.cell import Cell, Outcome


class Train(TrainOptions):
    """How a model is trained. The cell's folder receives weights.safetensors and history.json."""


def train(cell: Cell, options: Train) -> Outcome:
    model, victim = copy.deepcopy(
        (cell.model, cell.victim)
    )  # the net of the other cells stays as it was; the victim holds this copy
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
