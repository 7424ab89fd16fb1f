r"""Spectral decimation: removes the weakest frequencies. Abdullah et al. 2019,
https://arxiv.org/abs/1910.05262:

    X = DFT(x),   X_k <- 0  for the bins of least |X_k|^2,  as many as the budget ||delta||^2 allows,
        x_adv = DFT^{-1}(X)

The model is only evaluated if `search` is above 0. Departs from the paper: the budget is an energy and not a
magnitude, and the last bin is only made weaker, so that the signal-to-noise ratio is exact; the authors'
search keeps its last attempt, this one its best.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.spectrum import Spectrum, decimated, energies, samples, without

QUIETEST_DB = 60.0
"""Smallest change of the search, in dB below the budget."""


class Kenansville(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    segment: int | None = Field(default=None, ge=1)
    """Length of a segment, in samples (Armory uses 500): the clip is cut into segments, each with its own
    spectrum; null: one segment."""
    probability: float = Field(default=0.5, gt=0, le=1)
    """Probability that a segment is attacked. All attacked segments lose the same share of their energy, so
    that the clip loses what the budget allows."""
    search: int = Field(default=0, ge=0)
    """Bisection steps for the smallest change that reaches the goal (the authors use 15), one evaluation of
    the model each; 0: use the full budget."""

    def cost(self, classes: int | None = None) -> float:
        return self.search * FORWARD


@torch.no_grad()
def kenansville(problem: Problem, options: Kenansville) -> Tensor:
    energy = torch.tensor(energies(problem, "kenansville"), dtype=torch.float64)
    remove = [
        _remover(samples(problem, row), problem.generators[row], options) for row in range(len(problem))
    ]

    def at(rows: Tensor, db: Tensor) -> Tensor:
        """The clips of some rows, changed by `db` below the budget."""
        energies = (energy[rows] * 10 ** (-db / 10)).tolist()
        return torch.stack(
            [without(problem, row, e, remove[row]) for row, e in zip(rows.tolist(), energies, strict=True)]
        )

    everyone = torch.arange(len(problem))
    x_adv = at(everyone, torch.zeros(len(problem), dtype=torch.float64))
    if not options.search:
        return x_adv
    rows = everyone[problem.reached(x_adv).cpu()]
    active = problem.rows(rows.to(problem.x.device))
    works, fails = (torch.full((len(rows),), db, dtype=torch.float64) for db in (0.0, QUIETEST_DB))
    for _ in range(options.search if len(rows) else 0):
        db = (works + fails) / 2
        tried = at(rows, db)
        reached = active.reached(tried)
        x_adv[rows[reached.cpu()]] = tried[reached]  # each success is quieter than the one before
        works, fails = torch.where(reached.cpu(), db, works), torch.where(reached.cpu(), fails, db)
    return x_adv


def _remover(x: Tensor, generator: torch.Generator, options: Kenansville) -> Callable[[float], Tensor]:
    """A function from an energy to the clip (n,) without it: each attacked segment loses the same share of
    its energy."""
    parts = x.split(options.segment or max(len(x), 1))
    whole = [float(p.square().sum()) for p in parts]
    attacked = [options.segment is None] * len(parts)
    if options.segment is not None:
        attacked = (torch.rand(len(parts), generator=generator) < options.probability).tolist()
        # if the draw selects only silent segments, the loudest segment is attacked
        if not any(e > 0 and a for e, a in zip(whole, attacked, strict=True)):
            attacked[max(range(len(parts)), key=lambda i: whole[i])] = True
    spectra = [
        Spectrum.of(p) if a and e > 0 else None for p, e, a in zip(parts, whole, attacked, strict=True)
    ]
    at_stake = sum(e for e, spectrum in zip(whole, spectra, strict=True) if spectrum is not None)

    def remove(energy: float) -> Tensor:
        share = min(1.0, energy / at_stake)
        return torch.cat(
            [
                p if spectrum is None else decimated(spectrum, share * e).clip()
                for p, e, spectrum in zip(parts, whole, spectra, strict=True)
            ]
        )

    return remove
