"""The training loop, for any model, data set and objective: deterministic for one seed, and resumable after
any epoch with the same result.

The random numbers of an epoch (order, augmentation, dropout) depend only on the seed, the epoch and the
sample's id, so a resumed training gives the weights of an uninterrupted one: a checkpoint needs only weights,
optimiser and history.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from limen.core import seeds
from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.data.base.dataset import Dataset
from limen.models.base.model import Model, check_truth, inner
from limen.models.training.augment import augment, masking
from limen.models.training.batches import Step, steps
from limen.models.training.checkpoint import identity_of, read_checkpoint, save_weights, write_checkpoint
from limen.models.training.options import TrainOptions, learning_rate, optimizer_of
from limen.models.training.processes import Processes
from limen.models.training.score import merit, score

Progress = Callable[[float, str], None]
"""Called with the share done, in [0, 1], and a line to show."""


class Objective(Protocol):
    """The loss of a training step; implementations are in `limen.objectives`. `spec` describes it as plain
    data."""

    @property
    def spec(self) -> Mapping[str, Any]: ...

    def __call__(self, model: Model, batch: Batch, streams: Sequence[torch.Generator]) -> Tensor:
        """(B,) loss of each sample, differentiable; each sample draws from its own stream."""


def train(
    model: Model,
    train_set: Dataset,
    valid_set: Dataset | None,
    options: TrainOptions,
    folder: Path,
    *,
    objective: Objective,
    spec: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = lambda done, text: None,
) -> list[dict[str, Any]]:
    """Train `model` in place and return the history: one row per epoch.

    `folder` receives checkpoint.pt after every epoch, then weights.safetensors and history.json. If it
    contains a checkpoint of the same training, that training is continued; `spec`, the specs of model and
    data, is part of its identity. In each of several processes of torch.distributed, call this function with
    the same arguments.
    """
    check_fit(model, train_set)
    processes = Processes.current()
    # weight gradients are up to twice as fast on CPUs in this layout
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    processes.copy_first([*model.parameters(), *model.buffers()])
    optimizer = optimizer_of(model, options)
    identity = identity_of(
        model,
        train_set,
        valid_set,
        options,
        objective.spec,
        spec or {},
        seed=seed,
        processes=processes.count,
    )
    checkpoint = folder / "checkpoint.pt"
    if processes.first:
        folder.mkdir(parents=True, exist_ok=True)
    state = read_checkpoint(checkpoint, identity)
    processes.wait()  # a process must not take the first one's new checkpoint for an old one
    best, history = None, []
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        best, history = state["best"], state["history"]
    while len(history) < options.epochs and not _out_of_patience(history, options):
        epoch = len(history)
        loss = _epoch(model, train_set, optimizer, options, objective, epoch, seed, progress, processes)
        processes.copy_first(list(model.buffers()))
        row: dict[str, Any] = {"epoch": epoch + 1, "loss": loss}
        if valid_set is not None:
            row |= processes.same(_validated(model, valid_set) if processes.first else {})
        if not math.isfinite(loss):
            raise UserError(
                f"The training of epoch {epoch + 1} diverged (loss {loss}). Lower lr, or set clip_norm."
            )
        history.append(row)
        if len(history) == 1 + _best(history) or options.keep == "last":
            best = {name: value.clone() for name, value in model.state_dict().items()}
        if processes.first:
            progress((epoch + 1) / options.epochs, "  ".join(f"{k} {v:.4g}" for k, v in row.items()))
            write_checkpoint(
                checkpoint,
                identity,
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "history": history,
                    "best": best,
                },
            )
    assert best is not None
    model.load_state_dict(best)
    model.eval()
    if processes.first:
        save_weights(model, folder / "weights.safetensors")
        write_atomic(folder / "history.json", (json.dumps(history, indent=1) + "\n").encode())
    return history


def check_fit(model: Model, data: Dataset) -> None:
    """Raise a UserError if the model cannot take these samples or be compared with their truth."""
    if model.kind != data.kind:
        raise UserError(f"The model takes {model.kind}s, but {data.name} holds {data.kind}s.")
    check_truth(model, data.truth)
    if model.classes is not None and data.classes is not None and len(model.classes) != len(data.classes):
        raise UserError(
            f"The model has {len(model.classes)} classes, but {data.name} has {len(data.classes)}. Set the "
            "option classes."
        )
    if model.shape and data.shape and tuple(model.shape) != tuple(data.shape):
        raise UserError(
            f"The model takes samples of shape {tuple(model.shape)}, but those of {data.name} are "
            f"{tuple(data.shape)}."
        )
    if model.rate_hz and data.rate_hz and model.rate_hz != data.rate_hz:
        raise UserError(
            f"The model takes clips at {model.rate_hz} Hz, but those of {data.name} are at {data.rate_hz} Hz."
        )


def _epoch(
    model: Model,
    data: Dataset,
    optimizer: torch.optim.Optimizer,
    options: TrainOptions,
    objective: Objective,
    epoch: int,
    seed: int,
    progress: Progress,
    processes: Processes,
) -> float:
    """Train for one epoch; returns the mean loss."""
    count = math.ceil(len(data) / options.batch_size)
    total, device = 0.0, next(model.parameters()).device
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.train()
    # dropout draws from torch's own generator
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seeds.number(seed, "dropout", epoch, *processes.words))
        order = seeds.generator(seed, "order", epoch)
        for number, step in enumerate(steps(data, options, order, processes)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(options, epoch + (number + 1) / count)
            optimizer.zero_grad()
            loss = _backward(model, step, objective, options, epoch, seed, processes.several)
            processes.add_gradients(parameters)
            if options.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(parameters, options.clip_norm)
            optimizer.step()
            total += loss * (1 if processes.several else step.total)
            if number % 10 == 0 and processes.first:
                progress(
                    (epoch + number / count) / options.epochs,
                    f"epoch {epoch + 1}/{options.epochs}  loss {loss:.4g}",
                )
    model.eval()
    return processes.total(total) / len(data)


def _backward(
    model: Model,
    step: Step,
    objective: Objective,
    options: TrainOptions,
    epoch: int,
    seed: int,
    several: bool,
) -> float:
    """Compute the gradients of one step. Returns the mean loss, or, in one of several processes, the sum over
    its share."""
    if step.batch is None:
        return 0.0
    streams = seeds.generators(seed, step.batch.ids, "augment", epoch)
    batch = augment(step.batch, streams, options, model.rate_hz)
    batch = batch.to(next(model.parameters()).device)
    own = seeds.generators(seed, batch.ids, "objective", epoch)
    with torch.enable_grad(), masking(inner(model), streams, options):
        losses = objective(model, batch, own)
        if several:  # the gradients of all processes add up to that of the mean
            (losses.sum() / step.total).backward()
            return losses.sum().item()
        loss = losses.mean()
        loss.backward()
    return loss.item()


def _validated(model: Model, valid_set: Dataset) -> dict[str, float]:
    shown = ("accuracy", "wer", "cer", "error")
    return {f"valid_{name}": v for name, v in score(model, valid_set).items() if name in shown}


def _best(history: list[dict[str, Any]]) -> int:
    """Index of the best epoch; the latest of equals (it has trained for longer)."""
    return max(range(len(history)), key=lambda i: (merit(history[i]), i))


def _out_of_patience(history: list[dict[str, Any]], options: TrainOptions) -> bool:
    return (
        options.patience is not None
        and bool(history)
        and len(history) - 1 - _best(history) >= options.patience
    )
