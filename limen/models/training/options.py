"""Options of a training, and the optimiser and learning rate that they describe."""

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from limen.core.components import spec_of
from limen.models.base.model import Model
from limen.models.training.augment import AugmentOptions


class TrainOptions(AugmentOptions):
    """How a model is trained."""

    objective: Annotated[dict[str, Any], spec_of("objectives")] | None = None
    """The loss: {name: adversarial, ...}; null takes the default for the model's output."""
    epochs: int = Field(default=10, ge=1)
    """Passes over the training split."""
    batch_size: int = Field(default=64, ge=1)
    """Samples in one step, of all processes together."""
    shuffle: bool = True
    """Draw a new order for every epoch; if false, the order of the data is kept."""
    bucket_batches: int = Field(default=1, ge=1)
    """Clips: sort the samples of this many steps by length before they are divided into batches, so that
    batches need less padding."""
    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    """The rule that turns gradients into steps."""
    lr: float = Field(default=1e-3, gt=0)
    """Highest learning rate."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD."""
    nesterov: bool = False
    """SGD with Nesterov's momentum."""
    weight_decay: float = Field(default=0.0, ge=0)
    """L2 penalty (decoupled for adamw)."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """"cosine": down to zero along half a cosine; "step": times `step_factor` every `step_epochs` epochs."""
    warmup_epochs: float = Field(default=0.0, ge=0)
    """Epochs at the beginning during which the learning rate rises linearly."""
    step_epochs: int = Field(default=10, ge=1)
    """Epochs between two steps of the step schedule."""
    step_factor: float = Field(default=0.1, gt=0)
    """Factor of a step of the step schedule."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest L2 norm of a gradient; null does not limit it."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many epochs without a better validation score; null runs all epochs."""
    keep: Literal["best", "last"] = "best"
    """Weights of the epoch with the best validation score, or of the last epoch."""


def optimizer_of(model: Model, options: TrainOptions) -> torch.optim.Optimizer:
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
