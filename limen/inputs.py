"""Conversion of the arguments of Python calls (tensors, arrays, tuples, numbers) to batches."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limen.attacks.engine.run import check_range
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch, Kind
from limen.models.base.model import check_samples

UNKNOWN: list[str] = []
"""Placeholder for y of samples without labels."""


def as_batch(samples: Any, y: Any = None) -> Batch:
    """A batch of x (B, C, H, W) or (B, T) with labels y; UNKNOWN without any."""
    if isinstance(samples, Batch):
        if y is not None:
            raise UserError("These samples are a batch with labels: leave y out.")
        return samples
    x, lengths = samples, None
    if isinstance(samples, tuple | list) and len(samples) in (2, 3) and y is None:
        x, y, lengths = (*samples, None)[:3]
    x = _tensor(x, "x")
    if not x.is_floating_point():
        way = "For 16-bit sound: x.float() / 32768." if x.dim() == 2 else "For 8-bit pixels: x.float() / 255."
        raise UserError(
            "x must hold floating-point numbers in the natural range (pixels 0 to 1, waveforms -1 to 1), got "
            f"{x.dtype}. {way}"
        )
    if x.dim() not in (2, 4):
        raise UserError(
            f"x must be pictures of shape (B, C, H, W) or clips of shape (B, T), got {tuple(x.shape)}. "
            "A single sample is a batch of one: x[None]."
        )
    kind: Kind = "picture" if x.dim() == 4 else "clip"
    lengths = _lengths(lengths, x)
    batch = Batch(kind, [str(i) for i in range(len(x))], x, _answers(y, len(x)), lengths)
    check_samples(kind, x, lengths)
    check_range(batch, None)
    return batch


def listed(values: Any) -> list[Any]:
    """A list of the values; a single value gives a list of one."""
    one = isinstance(values, str | Mapping | Options) or not isinstance(values, Iterable)
    return [values] if one else list(values)


def integer(value: Any, name: str, least: int | None = None) -> int:
    """An integer argument; a UserError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or (least is not None and value < least):
        raise UserError(
            f"{name} must be a whole number{'' if least is None else f' of at least {least}'}, got {value!r}."
        )
    return int(value)


def _tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, np.ndarray) and not (
        values.flags.writeable and values.dtype.isnative and min(values.strides, default=0) >= 0
    ):
        values = np.array(values, values.dtype.newbyteorder("="), order="C")  # torch takes no others
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        if isinstance(values, list | tuple) and all(isinstance(one, Tensor) for one in values):
            raise UserError(
                f"{name} must be one tensor, got {len(values)} in a {type(values).__name__}. Samples of one "
                f"shape become one by torch.stack({name})."
            ) from None
        got = f"{type(values).__name__}{f' of {values.dtype}' if isinstance(values, np.ndarray) else ''}"
        raise UserError(f"{name} must be a tensor or an array, got {got}.") from None
    if tensor.is_meta or tensor.is_nested or tensor.layout is not torch.strided:
        way = "which holds no values" if tensor.is_meta else f"{tensor.layout}: give {name}.to_dense()"
        raise UserError(
            f"{name} must be a dense tensor, got {'a meta tensor, ' if tensor.is_meta else ''}{way}."
        )
    return tensor


def _lengths(lengths: Any, x: Tensor) -> Tensor | None:
    """(B,) valid samples of each clip; None for pictures."""
    if x.dim() == 4:
        if lengths is not None:
            raise UserError("lengths are for clips; these are pictures: give (x, y).")
        return None
    if lengths is None:
        return torch.full((len(x),), x.shape[1])
    found = _tensor(lengths, "lengths")
    if found.dim() != 1 or found.is_floating_point() or len(found) != len(x):
        raise UserError(
            f"lengths must be one integer per clip, got {tuple(found.shape)}, {found.dtype} for "
            f"{len(x)} clips."
        )
    return found.long()


def _answers(y: Any, n: int) -> Tensor | list[str]:
    """(n,) class indices or n transcripts."""
    if y is None:
        return UNKNOWN
    if isinstance(y, list | tuple) and all(isinstance(text, str) for text in y):
        found: Tensor | list[str] = list(y)
    else:
        found = _tensor(y, "y")
        if found.is_floating_point() or found.dim() != 1:
            raise UserError(
                f"y must be one class index per sample or a list of transcripts, got {tuple(found.shape)}, "
                f"{found.dtype}."
            )
        found = found.long()
    if len(found) != n:
        raise UserError(f"y must hold one answer per sample: got {len(found)} for {n} samples.")
    return found
