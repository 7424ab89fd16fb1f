"""One cell of an experiment: a net, a defence, an attack and what to do with them. Tasks ask it for attacked batches."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from limen import seeds
from limen.attacks._run import Attack, Store, quantise
from limen.data._dataset import Dataset
from limen.errors import UserError
from limen.goals._goal import Goal
from limen.metrics._apply import Metric, measure
from limen.models._model import Model, evaluating
from limen.types import Batch, Samples, different, predictions


@dataclass
class Example:
    """One sample to look at or listen to."""

    id: str
    clean: Tensor
    adversarial: Tensor
    row: dict[str, Any]


@dataclass
class Outcome:
    """What a task leaves: per-sample rows, what it found beyond them, samples to look at."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)


@dataclass
class Cell:
    model: Model
    """The net itself."""
    victim: Model
    """What is evaluated: the net behind its defence."""
    seen: Model
    """What the attacker differentiates: the victim, the net without its defence, or another net."""
    data: Dataset
    attack: Attack | None
    metrics: list[Metric]
    folder: Path
    """Where the task may leave files; appears in the run folder when the cell is done."""
    training: Callable[[int | None], Dataset]
    """The training part of the data, cut at a number of samples: universal attacks are crafted on it, nets trained on it."""
    validation: Callable[[int | None], Dataset]
    limit: int | None = None
    """Samples the experiment allows of each part of the data."""
    seed: int = 0
    store: Store = "float"
    batch_size: int = 64
    crafted: Path | None = None
    """File of the universal perturbation, named by all it depends on; made by the first cell that needs it."""
    examples: int = 4
    device: torch.device | str = "cpu"
    advance: Callable[[int], None] = lambda n: None
    """Called with the number of samples just finished."""
    say: Callable[[str], None] = lambda text: None

    def batches(self, limit: int | None = None) -> Iterator[Batch]:
        left = limit
        for batch in self.data.batches(self.batch_size):
            check_fits(self.model, batch)
            if left is not None and len(batch) > left:
                batch = batch.rows(range(left))
            yield batch.to(self.device)
            if left is not None:
                left -= len(batch)
                if left <= 0:
                    return

    def craft(self) -> None:
        """Universal attacks look for their perturbation on the training part first; the next cell that needs the same one finds it."""
        if self.attack is None or not self.attack.universal:
            return
        if self.crafted is not None and self.crafted.is_file():
            self.attack.crafted = {k: v.to(self.device) for k, v in load_file(self.crafted).items()}
            return
        wanted = getattr(self.attack.options, "samples", None)
        self.say(f"crafting {self.attack.search.name} on {wanted or 'all'} training samples")
        self.attack.craft(self.seen, self.training(wanted).all().to(self.device), seed=self.seed)
        if self.crafted is not None and self.attack.crafted is not None:
            self.crafted.parent.mkdir(exist_ok=True)
            beside = self.folder / "crafted.part"
            save_file({k: v.contiguous().cpu() for k, v in self.attack.crafted.items()}, beside)
            os.replace(beside, self.crafted)

    def samples(self, batch: Batch, attack: Attack | None = None) -> tuple[Samples, Goal | None]:
        """Attack one batch and judge it. Without an attack the samples are judged as they are."""
        attack = attack or self.attack
        extra: dict[str, Any] = {}
        if attack is None:
            with torch.no_grad(), evaluating(self.victim):
                clean = self.victim(batch.x, batch.lengths, seeds.generators(self.seed, batch.ids, "clean"))
            x_adv, adversarial, goal = batch.x, clean, None
        else:
            attacked = attack(self.seen, batch, seed=self.seed, victim=self.victim, store=self.store)
            x_adv, clean, adversarial, goal = attacked.x_adv, attacked.clean, attacked.adversarial, attacked.goal
            extra = {
                "success": attacked.success.tolist(),
                "forward_calls": attacked.calls.forward.tolist(),
                "backward_calls": attacked.calls.backward.tolist(),
                "dead_gradients": attacked.calls.dead.tolist(),
            }
        return Samples(batch, x_adv, self.data.rate_hz, self.model.classes, clean, adversarial, extra), goal

    def judge(self, samples: Samples, x_adv: Tensor, goal: Goal | None) -> Samples:
        """The same samples with another perturbation, stored and judged by a fresh forward pass."""
        batch, x_adv = samples.batch, quantise(x_adv, self.store)
        with torch.no_grad(), evaluating(self.victim):
            adversarial = self.victim(x_adv, batch.lengths, seeds.generators(self.seed, batch.ids, "judge"))
        extra = {} if goal is None else {**samples.extra, "success": goal.reached(adversarial).tolist()}
        return Samples(batch, x_adv, samples.rate_hz, samples.classes, samples.clean, adversarial, extra)

    def answers(self, samples: Samples) -> list[dict[str, Any]]:
        """One row per sample: who it is, what the model said, what the attack cost."""
        assert samples.clean is not None
        assert samples.adversarial is not None
        said = (self.names(v) for v in (samples.batch.y, predictions(samples.clean), predictions(samples.adversarial)))
        columns = dict(zip(("label", "clean_prediction", "adversarial_prediction"), said, strict=True)) | samples.extra
        return [{"id": name, **{k: v[i] for k, v in columns.items()}} for i, name in enumerate(samples.batch.ids)]

    def rows(self, samples: Samples) -> list[dict[str, Any]]:
        """The answers and every metric."""
        return [answer | measured for answer, measured in zip(self.answers(samples), measure(samples, self.metrics), strict=True)]

    def names(self, answers: Tensor | list[str]) -> list[str]:
        if not isinstance(answers, Tensor):
            return list(answers)
        classes = self.model.classes or []
        return [classes[i] if 0 <= i < len(classes) else str(i) for i in answers.tolist()]

    def right(self, samples: Samples) -> Tensor:
        """(B,) bool: the adversarial answer is still the truth."""
        assert samples.adversarial is not None
        return ~different(predictions(samples.adversarial), samples.batch.y, samples.batch.x.device)

    def moved(self, samples: Samples) -> Tensor:
        """(B,) bool: the answer changed: fooling, as Moosavi-Dezfooli et al. 2017 count it."""
        assert samples.clean is not None
        assert samples.adversarial is not None
        return different(predictions(samples.clean), predictions(samples.adversarial), samples.batch.x.device)


def check_fits(model: Model, batch: Batch) -> None:
    """The data must be what the model was made for."""
    if batch.kind != model.kind:
        raise UserError(f"This model takes {model.kind}s, but the data holds {batch.kind}s. Choose data of the model's kind.")
    shape = tuple(batch.x.shape[1:])
    if model.shape is not None and shape != tuple(model.shape):
        raise UserError(
            f"This model takes samples of shape {tuple(model.shape)}, but the data has {shape}. "
            "Choose other data, or a model made for this shape."
        )
    if isinstance(batch.y, Tensor) != (model.output == "class"):
        truth = "class" if isinstance(batch.y, Tensor) else "transcript"
        raise UserError(f"This model answers with a {model.output}, but the data's truth is a {truth}.")
    if isinstance(batch.y, Tensor) and model.classes is not None and int(batch.y.max()) >= len(model.classes):
        raise UserError(f"The data has class {int(batch.y.max())}, but the model knows only {len(model.classes)} classes.")
