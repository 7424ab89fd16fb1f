"""Trains the net on the training part of its data, then evaluates it, behind its defense if it has one, on the
part that the file names.

The cell's folder receives weights, history and one row per sample. The training itself never includes the
defense: the weights are those of the net alone."""

import copy
from dataclasses import replace

from limen.models.training.loop import train as fit
from limen.models.training.options import TrainOptions
from limen.objectives.base.objective import objective_for
from limen.tasks.accuracy import Accuracy, accuracy
from limen.tasks.base.cell import Cell, Outcome


class Train(TrainOptions):
    """How a model is trained. The cell's folder receives weights.safetensors and history.json."""


def train(cell: Cell, options: Train) -> Outcome:
    # the net of the other cells must stay unchanged; the victim holds this copy
    model, victim = copy.deepcopy((cell.model, cell.victim))
    history = fit(
        model,
        cell.training(cell.limit),
        cell.validation(cell.limit),
        options,
        cell.folder,
        objective=objective_for(model, options.objective),
        spec=cell.net,
        seed=cell.seed,
        progress=lambda done, text: cell.say(text),
    )
    outcome = accuracy(
        replace(cell, model=model, victim=victim, attacked_model=victim, attack=None, examples=0), Accuracy()
    )
    outcome.result = {"history": history, "weights": "weights.safetensors"}
    return outcome
