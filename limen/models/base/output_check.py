"""Check of a classifier's outputs for two samples, before the first cell of a run and before the first step
of an attack.

A module that takes other samples, or returns a tuple, NaN or too many columns, would otherwise fail hours
later, or give wrong numbers without an error. Recognisers are part of Limen and are not checked: the check
would cost as much as the first step of a search.
"""

from typing import Any

import torch
from torch import Tensor, nn

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Batch, answers_of
from limen.models.base.model import Model, check_fits, check_samples, check_takes, evaluating


def check_outputs(model: Model, batch: Batch, who: str = "This model") -> None:
    """Raise a UserError unless the model takes these samples and its logits are finite, with one column
    per class."""
    check_takes(model, batch, who)
    if model.output != "class" or model.classes is None:
        return
    columns = logit_columns(model, batch, who)
    if columns != len(model.classes):
        raise UserError(
            f"{who} is declared with {len(model.classes)} classes, but its logits have {columns} columns. "
            f"Declare as many classes as it has (classes: {columns}), or use a module with "
            f"{len(model.classes)}."
        )


def check_surrogate(
    model: Model, judged: Model, batch: Batch, rate_hz: int | None, who: str, net: str
) -> None:
    """Raise a UserError unless an attack on `judged`, named `net`, can be computed on this model: it must
    take the same samples and have the same kind of output and number of classes."""
    if model.rate_hz not in (None, rate_hz):
        raise UserError(
            f"{who} takes clips at {model.rate_hz} Hz, but the data has {rate_hz} Hz. Choose a surrogate of "
            "the net's rate."
        )
    if model.classes is not None and judged.classes is not None and len(model.classes) != len(judged.classes):
        raise UserError(
            f"{who} has {len(model.classes)} classes, but {net[0].lower()}{net[1:]} has "
            f"{len(judged.classes)}. A surrogate must have the classes of the net that is judged."
        )
    check_fits(model, batch, who)
    check_outputs(model, batch, who)


def logit_columns(model: Model, batch: Batch, who: str) -> int:
    """Number of logits that a classifier returns for two of the samples. The result is cached until the
    weights or the form of the samples change. The model's mode and the global random state are not
    changed."""
    state = _state(model, batch)
    if model.checked is None or model.checked[0] != state:
        model.checked = (state, _computed(model, batch, who))
    return model.checked[1]


def _computed(model: Model, batch: Batch, who: str) -> int:
    check_samples(batch.kind, batch.x[:2], None if batch.lengths is None else batch.lengths[:2], batch.ids)
    index = [0, min(1, len(batch.x) - 1)]  # a single sample is used twice
    lengths = None if batch.lengths is None else batch.lengths[index]
    x = batch.x[index] if lengths is None else batch.x[index, : int(lengths.max())]
    x, before = x.clone(), x.clone()
    version = _version(x)
    try:
        with torch.no_grad(), evaluating(model), torch.random.fork_rng([x.device] if x.is_cuda else []):
            logits: Any = answers_of(model(x, lengths, seeds.generators(0, ["0", "1"], "trial")))
    except UserError:
        raise
    except Exception as error:  # a user's module may raise any exception
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
            f"{who} must return floating-point logits of shape (B, classes), got {got} for two samples. "
            "Wrap it in a module that returns the logits."
        )
    if not bool(logits.isfinite().all()):
        raise UserError(
            f"{who} must return finite logits, but they contain NaN or infinity for clean samples. Check its "
            "weights and its normalisation (a std of 0?)."
        )
    return logits.shape[1]


def _state(model: nn.Module, batch: Batch) -> tuple[Any, ...]:
    """State that the check depends on: the weights, by identity and version, and the form of the samples."""
    weights = [*model.parameters(), *model.buffers()]
    shape = tuple(batch.x.shape[1:]) if batch.kind == "picture" else ()
    return (shape, batch.x.dtype, batch.x.device, *((id(w), _version(w)) for w in weights))


def _version(x: Tensor) -> int:
    """Number of in-place changes of a tensor, as counted by autograd."""
    return 0 if x.is_inference() else x._version


def _reason(error: Exception) -> str:
    """The line of the message that gives the reason; TorchScript puts its own traceback before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if "TorchScript interpreter" in lines[0] else 0].rstrip(".")


def _other_weights(model: nn.Module, x: Tensor) -> str:
    """Advice if the weights have another type or device than x; empty otherwise."""
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
