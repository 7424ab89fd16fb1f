r"""Spectral decimation and clipping: removes the weakest frequencies and limits the magnitude of the
strongest.

After the attack of that name in robust_speech, https://github.com/RaphaelOlivier/robust_speech, which drops
as Abdullah et al. 2019 do (https://arxiv.org/abs/1910.05262):

    X_k <- 0  for the bins of least |X_k|^2,  an energy 10^(-decimation_db / 10) of the budget,
    X_k <- m X_k / |X_k|  where |X_k| > m,    m such that  sum |delta X_k|^2  is the budget.

The model is not used. Departs from that code: its budget of the second step is a sum of differences of power,
not the power of the difference, so the signal-to-noise ratio is wrong by up to 14 dB; here it is exact.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.spectrum import Spectrum, decimated, energies, samples, solved, without


class Yeehaw(AttackOptions):
    uses_gradients: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    decimation_db: float = Field(default=20.0, ge=0)
    """Energy of the removed frequencies, in dB below the budget; at 0 nothing is left to clip and the attack
    is kenansville."""

    def cost(self, classes: int | None = None) -> float:
        return 0.0


@torch.no_grad()
def yeehaw(problem: Problem, options: Yeehaw) -> Tensor:
    share = 10 ** (-options.decimation_db / 10)
    return torch.stack(
        [
            without(problem, row, energy, _remover(samples(problem, row), share))
            for row, energy in enumerate(energies(problem, "yeehaw"))
        ]
    )


def _remover(x: Tensor, share: float) -> Callable[[float], Tensor]:
    """A function from an energy to the clip (n,) changed by it; removing the weakest bins is a share of the
    change."""
    spectrum = Spectrum.of(x)
    before = spectrum.bins.abs()

    def remove(energy: float) -> Tensor:
        rest = decimated(spectrum, share * energy)
        after = rest.bins.abs()
        top = float(after.max())

        def change(lowered: float) -> float:
            """Energy of the change when the highest magnitude is lowered by this much. Phases stay, so it
            depends on the magnitudes alone."""
            return float((spectrum.weight * (before - after.clamp_max(top - lowered)).square()).sum())

        m = top - solved(change, energy, 0.0, top)
        return rest.scaled((m / after.clamp_min(torch.finfo(after.dtype).tiny)).clamp_max(1)).clip()

    return remove
