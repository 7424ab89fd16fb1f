"""Every classifier answers two samples before anything relies on it: before the first cell of a run, before
the first step of an attack.

A module that takes other samples, answers with a tuple, with NaN or with a column too many would otherwise
fail hours later, or not fail and give numbers. Recognisers are Limen's own and are not asked: a trial of
theirs would cost as much as the first step.
"""

from typing import Any

import torch
from torch import Tensor, nn

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Batch, answers_of
from limen.models.base.model import Model, check_fits, check_samples, check_takes, evaluating


def check_answers(model: Model, batch: Batch, who: str = "This model") -> None:
    """A UserError unless the model takes these samples and answers with finite logits, one column per
    class."""
    check_takes(model, batch, who)
    if model.output != "class" or model.classes is None:
        return
    columns = width(model, batch, who)
    if columns != len(model.classes):
        raise UserError(
            f"{who} is declared with {len(model.classes)} classes, but its logits have {columns} columns. "
            f"Declare as many classes as it has (classes: {columns}), or take the module that was made for "
            f"{len(model.classes)}."
        )


def check_surrogate(
    model: Model, judged: Model, batch: Batch, rate_hz: int | None, who: str, net: str
) -> None:
    """A UserError unless an attack on `judged`, called `net`, can be computed on this model: it takes the
    same samples and gives answers of the same kind, of as many classes."""
    if model.rate_hz not in (None, rate_hz):
        raise UserError(
            f"{who} takes clips at {model.rate_hz} Hz, but the data has {rate_hz} Hz. Choose a surrogate of "
            "the net's rate."
        )
    if model.classes is not None and judged.classes is not None and len(model.classes) != len(judged.classes):
        raise UserError(
            f"{who} tells {len(model.classes)} classes apart, but {net[0].lower()}{net[1:]} tells "
            f"{len(judged.classes)}. A surrogate must have the classes of the net that is judged."
        )
    check_fits(model, batch, who)
    check_answers(model, batch, who)


def width(model: Model, batch: Batch, who: str) -> int:
    """Columns of the logits with which a classifier answers two of the samples; a model that has answered
    such samples is not asked again until its weights change. Its mode and the random streams of the process
    stay as they are."""
    state = _state(model, batch)
    if model.tried is None or model.tried[0] != state:
        model.tried = (state, _asked(model, batch, who))
    return model.tried[1]


def _asked(model: Model, batch: Batch, who: str) -> int:
    check_samples(batch.kind, batch.x[:2], None if batch.lengths is None else batch.lengths[:2], batch.ids)
    index = [0, min(1, len(batch.x) - 1)]  # of a single sample both rows
    lengths = None if batch.lengths is None else batch.lengths[index]
    x = batch.x[index] if lengths is None else batch.x[index, : int(lengths.max())]
    x, before = x.clone(), x.clone()
    version = _version(x)
    try:
        with torch.no_grad(), evaluating(model), torch.random.fork_rng([x.device] if x.is_cuda else []):
            logits: Any = answers_of(model(x, lengths, seeds.generators(0, ["0", "1"], "trial")))
    except UserError:
        raise
    except Exception as error:  # modules of the user's fail in their own ways
        raise UserError(
            f"{who} cannot take {batch.kind}s of shape {tuple(x.shape[1:])}, {x.dtype} on {x.device}: "
            f"{_reason(error)}.{_other_weights(model, x)}"
        ) from error
    if _version(x) != version or not torch.equal(x, before):
        raise UserError(
            f"{who} changes its input in place, which destroys the samples and stops gradients. Let its "
            "forward work on a copy: x = x.clone() first, or x - mean in place of x.sub_(mean)."
        )
    if (
        not isinstance(logits, Tensor)
        or not logits.is_floating_point()
        or logits.dim() != 2
        or len(logits) != 2
        or logits.shape[1] < 2
    ):
        got = (
            f"{tuple(logits.shape)}, {logits.dtype}" if isinstance(logits, Tensor) else type(logits).__name__
        )
        raise UserError(
            f"{who} must answer with floating-point logits of shape (B, classes), got {got} for two samples. "
            "Wrap it in a module that returns the logits."
        )
    if not bool(logits.isfinite().all()):
        raise UserError(
            f"{who} must answer with finite logits, but they hold NaN or infinity for clean samples. Check "
            "its weights and its normalisation (a std of 0?)."
        )
    return logits.shape[1]


def _state(model: nn.Module, batch: Batch) -> tuple[Any, ...]:
    """What an answer depends on: the weights, by identity and number of changes, and the form of the
    samples."""
    weights = [*model.parameters(), *model.buffers()]
    shape = tuple(batch.x.shape[1:]) if batch.kind == "picture" else ()
    return (shape, batch.x.dtype, batch.x.device, *((id(w), _version(w)) for w in weights))


def _version(x: Tensor) -> int:
    """How often a tensor was changed in place, as autograd counts it."""
    return 0 if x.is_inference() else x._version


def _reason(error: Exception) -> str:
    """The line of the message that says what is wrong; TorchScript puts its own traceback before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if "TorchScript interpreter" in lines[0] else 0].rstrip(".")


def _other_weights(model: nn.Module, x: Tensor) -> str:
    """The way out if the weights are of another type or on another device than x."""
    for weight in model.parameters():
        if weight.is_floating_point() and (weight.dtype, weight.device) != (x.dtype, x.device):
            ways = {torch.float32: "x.float()", torch.float64: "x.double()"}
            way = (
                ways.get(weight.dtype, f"x.to({weight.dtype})")
                if weight.dtype != x.dtype
                else f'x.to("{weight.device}")'
            )
            return f" Its weights are {weight.dtype} on {weight.device}: pass {way}, or convert the model."
    return ""
