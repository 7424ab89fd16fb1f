"""Perturbations scaled to exactly a given size: what accuracy against distortion is drawn with."""

import torch
from torch import Tensor

from limen.budgets.families.balls import expand
from limen.core.errors import UserError
from limen.core.types import valid

NORMS = ("l2", "linf", "dissimilarity", "peak_db", "snr_db")


def rescale(
    x: Tensor, x_adv: Tensor, norm_name: str, value: float | Tensor, lengths: Tensor | None = None
) -> Tensor:
    r"""x + s * (x_adv - x), with the one s >= 0 per sample for which the change has exactly this size; no
    change stays none.

    norm_name   size of delta
    l2          ||delta||_2
    linf        max |delta|
    dissimilarity   ||delta||_2 / ||x||_2
    peak_db     20 log10( max |delta| / max |x| )
    snr_db      20 log10( ||x||_2 / ||delta||_2 )

    Padding is neither changed nor measured. The range of samples is not enforced: clipping would undo the
    exactness, so it is the caller's to do and to report.
    """
    if norm_name not in NORMS:
        raise UserError(f'Perturbations can be scaled by {", ".join(NORMS)}, but "{norm_name}" came.')
    mask = valid(x, lengths)
    delta = x_adv - x if mask is None else (x_adv - x) * mask
    clean = x if mask is None else x * mask
    peak = norm_name in ("linf", "peak_db")
    value = torch.as_tensor(value, dtype=x.dtype, device=x.device)
    if norm_name == "peak_db":
        value = _size(clean, peak) * 10 ** (value / 20)
    elif norm_name == "snr_db":
        value = _size(clean, peak) * 10 ** (-value / 20)
    elif norm_name == "dissimilarity":
        value = _size(clean, peak) * value
    largest = _size(delta, peak=True)
    unit = delta / expand(
        torch.where(largest > 0, largest, 1), delta
    )  # squares of small changes would vanish
    size = _size(unit, peak)
    return x + unit * expand(value / torch.where(size > 0, size, 1), x)


def _size(x: Tensor, peak: bool) -> Tensor:
    flat = x.flatten(1)
    return flat.abs().amax(1) if peak else flat.norm(dim=1)
