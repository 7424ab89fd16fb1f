"""Shared by the spectral attacks, which remove energy from a clip's spectrum without using a model.

Every clip is transformed alone, over its valid samples and in double precision, so its result is the same in
any batch. With X = rfft(x) of n samples, the energies |X_k|^2 / n (twice that but for DC and, of even n,
Nyquist) add up to ||x||^2 (Parseval), so the removed energy is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.core.errors import UserError

TOLERANCE = 1e-9
"""Share of an energy that is negligible: 4e-9 dB."""


@dataclass
class Spectrum:
    """The bins of one clip and the energy of each."""

    bins: Tensor
    """(n // 2 + 1,) complex."""
    weight: Tensor
    """Energy of a bin of magnitude 1."""
    n: int

    @classmethod
    def of(cls, x: Tensor) -> "Spectrum":
        n = max(len(x), 1)
        weight = torch.full((n // 2 + 1,), 2 / n, dtype=torch.float64, device=x.device)
        weight[0] = 1 / n
        if n % 2 == 0:
            weight[-1] = 1 / n
        return cls(torch.fft.rfft(x.double(), n=n), weight, n)

    @cached_property
    def ascending(self) -> tuple[Tensor, Tensor, Tensor]:
        """Energies of the bins in rising order, their running sum, and the numbers of the bins."""
        energy, order = (self.weight * self.bins.abs().square()).sort(stable=True)
        return energy, energy.cumsum(0), order

    def scaled(self, gain: Tensor) -> "Spectrum":
        return Spectrum(self.bins * gain, self.weight, self.n)

    def clip(self) -> Tensor:
        """(n,) samples."""
        return torch.fft.irfft(self.bins, n=self.n)


def decimated(spectrum: Spectrum, energy: float) -> Spectrum:
    """The clip without its weakest bins: the change has exactly this energy, so the last affected bin is only
    made weaker."""
    e, total, order = spectrum.ascending
    gone = int((total <= energy).sum())
    gain = torch.ones_like(e)
    gain[:gone] = 0
    if gone < len(e):
        left = energy - (float(total[gone - 1]) if gone else 0.0)
        gain[gone] = (
            1 - (left / e[gone]).clamp(0, 1).sqrt()
        )  # energy of the change of one bin: (1 - gain)^2 e
    return spectrum.scaled(torch.empty_like(gain).scatter_(0, order, gain))


def solved(size: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """The s in [low, high] with size(s) = wanted, for a continuous, increasing size; the closest end if there
    is none.

    False position with the Illinois rule, because each step costs a transform and bisection needs many steps.
    """
    below, above = size(low) - wanted, size(high) - wanted
    if below >= 0 or above <= 0:
        return low if below >= 0 else high
    last = 0
    for _ in range(100):
        s = (low * above - high * below) / (above - below)
        off = size(s) - wanted
        if abs(off) <= TOLERANCE * wanted:
            return s
        side = 1 if off > 0 else -1
        if side > 0:
            high, above, below = s, off, below / 2 if last == side else below
        else:
            low, below, above = s, off, above / 2 if last == side else above
        last = side
    return low


def energies(problem: Problem, who: str) -> list[float]:
    """Energy that each clip may lose: the square of its L2 radius. Raises an error for pictures and other
    budgets."""
    if problem.model.kind != "clip":
        raise UserError(
            f"The attack {who} is for clips, but this model takes {problem.model.kind}s. Use pgd or "
            "random_noise."
        )
    if problem.ball.norm_name != "l2":
        raise UserError(
            f"The attack {who} removes energy from a clip, so its budget must limit energy: "
            "budget: {name: snr, snr_db: 30} or {name: l2, eps: 0.5}."
        )
    return problem.ball.radius.double().square().tolist()


def samples(problem: Problem, row: int) -> Tensor:
    """(n,) the valid samples of one clip, in double precision."""
    x = problem.x[row]
    return (x if problem.lengths is None else x[: int(problem.lengths[row])]).double()


def without(problem: Problem, row: int, energy: float, remove: Callable[[float], Tensor]) -> Tensor:
    """(T,) the clip of this row as `remove(energy)` gives it, in range and changed by exactly this energy, or
    by all of its energy if that is less. Padding is left alone."""
    x, out = samples(problem, row), problem.x[row].clone()
    whole = float(x.square().sum())
    if whole == 0:
        return out
    energy = min(energy, whole)

    def size(y: Tensor) -> float:
        return float((y - x).square().sum())

    y = remove(energy)
    allowed = problem.clip(y)
    if size(allowed) < (1 - TOLERANCE) * size(y):
        # clipping to the range reverses a part of the change, so more is removed until the clipped change has
        # the energy. Such a change exists, because its size grows continuously with the removed energy up to
        # silence, which is in range
        allowed = problem.clip(remove(solved(lambda e: size(problem.clip(remove(e))), energy, energy, whole)))
    out[: len(x)] = allowed
    return out
