"""White Gaussian noise with the energy of the attack's change: a control for changes of the same size."""

from collections.abc import Sequence

import torch
from torch import Tensor

from limen.attacks.engine.storage import Store, quantise
from limen.budgets.families.balls import expand
from limen.core.seeds import normal_like
from limen.core.types import BOUNDS, Batch, valid

TRIES, TOLERANCE = 30, 1e-6


def equal_noise(batch: Batch, x_adv: Tensor, streams: Sequence[torch.Generator], store: Store) -> Tensor:
    """x + s n, clipped to the range and stored, with the s per sample for which ||change||_2 is that of
    x_adv.

    Clipping and rounding change the norm, so s is determined by iterating s <- s * wanted / size: size / s
    decreases in s, and rounding steps are small in comparison. If the largest change that the range allows is
    too small, the result is the largest.
    """
    low, high = BOUNDS[batch.kind]
    mask = valid(batch.x, batch.lengths)
    noise = normal_like(batch.x, streams, None if mask is None else batch.lengths)
    wanted = _norm(x_adv - batch.x, mask)
    scale = wanted / _norm(noise, mask).clamp_min(1e-12)
    out, error, left = batch.x.clone(), wanted, wanted > 0
    for _ in range(TRIES):
        tried = quantise((batch.x + noise * expand(scale, noise).to(noise)).clamp(low, high), store)
        size = _norm(tried - batch.x, mask)
        nearer = left & ((size - wanted).abs() < error)
        out, error = (
            torch.where(expand(nearer, tried), tried, out),
            torch.where(nearer, (size - wanted).abs(), error),
        )
        left = error > TOLERANCE * wanted  # converged samples stay fixed
        if not bool(left.any()):
            break
        scale = torch.where(size > 0, scale * wanted / size.clamp_min(1e-12), scale)
    return out


def _norm(x: Tensor, mask: Tensor | None) -> Tensor:
    return (x if mask is None else x * mask).flatten(1).double().norm(dim=1)
