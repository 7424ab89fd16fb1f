"""CrAdv's task train: stochastic gradient descent, on attacked pictures if there is an attack, into
data/weights/<net_id>.pth."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limen.core.types import Batch
from limen.data.base.dataset import Dataset
from limen.experiments.cradv import schema
from limen.experiments.cradv.nets import Opener, mapped
from limen.experiments.cradv.tasks import SEED, Run
from limen.models.base.model import Model, inner
from limen.models.training.loop import train as fit
from limen.models.training.options import TrainOptions
from limen.objectives.base.objective import objective_for


@dataclass(frozen=True)
class OnAttacked:
    """The default loss of the net behind its defense, on the samples that CrAdv's attack gives: Limen's
    objective `adversarial`, in the normalised space of CrAdv's data sources."""

    run: Run

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": "adversarial", "attack": self.run.attack and self.run.attack.name}

    def __call__(self, model: Model, batch: Batch, streams: Sequence[torch.Generator]) -> Tensor:
        normal = self.run.net.normalised(batch)
        x = self.run.attacked(normal)  # in evaluation mode, whatever the mode of the training
        return objective_for(self.run.victim)(self.run.victim, replace(normal, x=x), streams)


def train(run: Run, params: schema.Train, opener: Opener) -> dict[str, object]:
    """Train the net in place and save it; CrAdv's result is empty."""
    data = opener.data(run.net.spec, "train")
    if run.limit is not None:
        data.keys = data.keys[: run.limit]
    if params.epochs:
        _fit(run, data, params)
    _save(run, Path(mapped(f"data/weights/{run.net.spec.id}.pth", opener.mapping)))
    opener.opened.clear()  # the next task takes the new weights
    return {}


def _fit(run: Run, data: Dataset, params: schema.Train) -> None:
    options = TrainOptions(
        epochs=params.epochs,
        batch_size=run.net.spec.batch_size,
        shuffle=run.net.spec.source.shuffle is not False,
        optimizer="sgd",
        lr=params.lr,
        momentum=params.momentum,
        weight_decay=params.weight_decay,
        keep="last",
    )
    done = 0.0

    def progress(share: float, text: str) -> None:
        nonlocal done
        run.advance(share - done)
        done = share

    run.victim.train()
    with tempfile.TemporaryDirectory() as folder:  # CrAdv resumes no training
        fit(
            run.net.model,
            data,
            None,
            options,
            Path(folder),
            objective=OnAttacked(run),
            seed=SEED,
            progress=progress,
        )
    run.victim.eval()


def _save(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    torch.save({k: v.cpu() for k, v in inner(run.net.model).state_dict().items()}, part)
    os.replace(part, path)
