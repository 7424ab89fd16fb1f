"""Training of any model on any data set: deterministic from one seed, and resumable after any epoch with the
same result.

What an epoch draws (order, augmentation, dropout) depends on the seed, the epoch and the sample's id alone,
so an interrupted training continues exactly: the checkpoint of an epoch holds weights, optimiser and history,
and nothing else is needed.
"""

import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core import seeds
from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.core.types import Batch, collate
from limen.data.base.dataset import Dataset
from limen.models.base.load import load_tensors
from limen.models.base.model import Model, check_truth, inner
from limen.models.training.augment import AugmentOptions, augment, masking
from limen.models.training.score import score

Progress = Callable[[float, str], None]
"""Told the share done, in [0, 1], and a line to show."""

Perturb = Callable[[Model, Batch], Tensor]
"""Replaces the samples of a training batch, for example by adversarial ones."""


class TrainOptions(AugmentOptions):
    """How a model is trained."""

    epochs: int = Field(default=10, ge=1)
    """Passes over the training split."""
    batch_size: int = Field(default=64, ge=1)
    """Samples in one step."""
    bucket_batches: int = Field(default=1, ge=1)
    """Clips: the samples of so many steps are sorted by length before they are parted into batches: less
    padding is computed on."""
    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    """The rule that turns gradients into steps."""
    lr: float = Field(default=1e-3, gt=0)
    """Learning rate at its highest."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of SGD."""
    nesterov: bool = False
    """SGD looks ahead (Nesterov's momentum)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """L2 penalty (decoupled for adamw)."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """"cosine": down to zero along half a cosine; "step": times `step_factor` every `step_epochs` epochs."""
    warmup_epochs: float = Field(default=0.0, ge=0)
    """The learning rate rises linearly during the first so many epochs."""
    step_epochs: int = Field(default=10, ge=1)
    """Of the step schedule."""
    step_factor: float = Field(default=0.1, gt=0)
    """Of the step schedule."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the truth spread over all classes."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest L2 norm of a gradient step; null does not limit it."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many epochs without a better validation score; null runs all epochs."""
    keep: Literal["best", "last"] = "best"
    """Weights of the epoch with the best validation score, or of the last epoch."""


def train(
    model: Model,
    train_set: Dataset,
    valid_set: Dataset | None,
    options: TrainOptions,
    folder: Path,
    *,
    seed: int = 0,
    progress: Progress = lambda done, text: None,
    perturb: Perturb | None = None,
) -> list[dict[str, Any]]:
    """Train `model` in place. `folder` receives checkpoint.pt after every epoch, then weights.safetensors and
    history.json.

    A folder with a checkpoint of the same training is continued. Returns the history: one row per epoch.
    """
    check_fit(model, train_set)
    folder.mkdir(parents=True, exist_ok=True)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # gradients of weights come up to twice as fast on CPUs
    optimizer = _optimizer(model, options)
    state: dict[str, Any] = {"history": [], "best": None}
    identity = json.dumps(
        {"seed": seed, "data": train_set.name, "n": len(train_set), **options.model_dump()}, sort_keys=True
    )
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        state = load_tensors(checkpoint)
        if state["identity"] != identity:
            raise UserError(
                f"{checkpoint} belongs to a training with other options. Use another folder, or delete it "
                "to start anew."
            )
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    history: list[dict[str, Any]] = state["history"]
    while len(history) < options.epochs and not _out_of_patience(history, options):
        epoch = len(history)
        loss = _epoch(model, train_set, optimizer, options, epoch, seed, progress, perturb)
        row: dict[str, Any] = {"epoch": epoch + 1, "loss": loss}
        if valid_set is not None:
            row |= {
                f"valid_{name}": value
                for name, value in score(model, valid_set).items()
                if name in ("accuracy", "wer", "cer")
            }
        if not math.isfinite(loss):
            raise UserError(
                f"The training of epoch {epoch + 1} diverged (loss {loss}). Lower lr, or set clip_norm."
            )
        history.append(row)
        if len(history) == 1 + _best(history) or options.keep == "last":
            state["best"] = {name: value.clone() for name, value in model.state_dict().items()}
        progress((epoch + 1) / options.epochs, "  ".join(f"{k} {v:.4g}" for k, v in row.items()))
        _save(
            checkpoint,
            {
                "identity": identity,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "history": history,
                "best": state["best"],
            },
        )
    model.load_state_dict(state["best"])
    model.eval()
    save_weights(model, folder / "weights.safetensors")
    write_atomic(folder / "history.json", (json.dumps(history, indent=1) + "\n").encode())
    return history


def check_fit(model: Model, data: Dataset) -> None:
    """A UserError if the model cannot read these samples or answer for them."""
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


def learning_rate(options: TrainOptions, at: float) -> float:
    """The learning rate after `at` epochs (a fraction inside an epoch)."""
    if at < options.warmup_epochs:
        return options.lr * at / options.warmup_epochs
    if options.schedule == "cosine":
        done = (at - options.warmup_epochs) / max(options.epochs - options.warmup_epochs, 1e-9)
        return options.lr * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return options.lr * (
        options.step_factor ** int(at / options.step_epochs) if options.schedule == "step" else 1.0
    )


def _epoch(
    model: Model,
    data: Dataset,
    optimizer: torch.optim.Optimizer,
    options: TrainOptions,
    epoch: int,
    seed: int,
    progress: Progress,
    perturb: Perturb | None,
) -> float:
    """One pass; returns the mean loss."""
    steps = math.ceil(len(data) / options.batch_size)
    total, device = 0.0, next(model.parameters()).device
    model.train()
    with torch.random.fork_rng(
        devices=[device] if device.type == "cuda" else []
    ):  # dropout draws from torch's own generator
        torch.manual_seed(seeds.number(seed, "dropout", epoch))
        for step, batch in enumerate(_batches(data, options, seeds.generator(seed, "order", epoch))):
            streams = seeds.generators(seed, batch.ids, "augment", epoch)
            batch = augment(batch, streams, options, model.rate_hz).to(device)
            x = batch.x if perturb is None else perturb(model, batch)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(options, epoch + (step + 1) / steps)
            with torch.enable_grad(), masking(inner(model), streams, options):
                loss = _losses(model, batch, x, options).mean()
                optimizer.zero_grad()
                loss.backward()
            if options.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
            optimizer.step()
            total += loss.item() * len(batch)
            if step % 10 == 0:
                progress(
                    (epoch + step / steps) / options.epochs,
                    f"epoch {epoch + 1}/{options.epochs}  loss {loss.item():.4g}",
                )
    model.eval()
    return total / len(data)


def _losses(model: Model, batch: Batch, x: Tensor, options: TrainOptions) -> Tensor:
    """(B,) cross-entropy of the class, or nats per character of the transcript."""
    outputs = model(x, batch.lengths)
    if isinstance(outputs, Tensor):
        assert isinstance(batch.y, Tensor)
        return F.cross_entropy(outputs, batch.y, reduction="none", label_smoothing=options.label_smoothing)
    assert not isinstance(batch.y, Tensor)
    if hasattr(
        outputs, "training_loss"
    ):  # a model that learns from more, or from less, than the likelihood of its transcripts
        return outputs.training_loss(batch.y)
    return outputs.nll(batch.y) / torch.tensor([len(text) + 1 for text in batch.y]).to(x)


def _batches(data: Dataset, options: TrainOptions, order: torch.Generator) -> Iterator[Batch]:
    numbers = torch.randperm(len(data), generator=order).tolist()
    size = options.batch_size
    for start in range(0, len(numbers), size * options.bucket_batches):
        samples = [data[i] for i in numbers[start : start + size * options.bucket_batches]]
        if options.bucket_batches > 1:
            samples.sort(key=lambda sample: len(sample.x))
        parts = range(0, len(samples), size)
        for part in (
            torch.randperm(len(parts), generator=order).tolist()
            if options.bucket_batches > 1
            else range(len(parts))
        ):
            yield collate(data.kind, samples[parts[part] : parts[part] + size])


def _optimizer(model: Model, options: TrainOptions) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if options.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            options.lr,
            options.momentum,
            weight_decay=options.weight_decay,
            nesterov=options.nesterov,
        )
    kind = torch.optim.Adam if options.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, options.lr, weight_decay=options.weight_decay)


def _merit(row: dict[str, Any]) -> float:
    """Higher is better: accuracy, or minus the error rates, or (without a validation split) minus the
    loss."""
    if "valid_accuracy" in row:
        return row["valid_accuracy"]
    return -(row["valid_wer"] + row["valid_cer"]) if "valid_wer" in row else -row["loss"]


def _best(history: list[dict[str, Any]]) -> int:
    """Number of the best epoch; of equals, the latest (it has trained for longer)."""
    return max(range(len(history)), key=lambda i: (_merit(history[i]), i))


def _out_of_patience(history: list[dict[str, Any]], options: TrainOptions) -> bool:
    return (
        options.patience is not None
        and bool(history)
        and len(history) - 1 - _best(history) >= options.patience
    )


def _save(path: Path, state: dict[str, Any]) -> None:
    """A killed run leaves the old checkpoint or the new one, never half of one."""
    content = io.BytesIO()
    torch.save(state, content)
    write_atomic(path, content.getvalue())


def save_weights(model: Model, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """The inner network's state dict as safetensors; `dtype` is that of floating-point parameters as
    stored."""
    from safetensors.torch import save

    network = inner(model)
    parameters = {name for name, _ in network.named_parameters()}
    kept = {name: v.to(dtype) if name in parameters else v for name, v in network.state_dict().items()}
    state = {name: v.detach().cpu().contiguous().clone() for name, v in kept.items()}
    write_atomic(path, save(state))
