r"""Reverberation of increasing level. An impulse response is multiplied by a constant after the direct sound
(Manocha et al. 2020, https://arxiv.org/abs/2001.04460, section 3.1), so that the direct-to-reverberant ratio
falls evenly from `weakest_db` to `strongest_db`:
    DRR = 10 log10 ( sum_direct h^2 / sum_after h^2 )
"""

from pydantic import Field
from torch import Tensor

from limen.core.options import Options
from limen.degradations.shared.impulse import after_direct, reverberant
from limen.degradations.shared.scale import between


class Drr(Options):
    file: str = ""
    """An impulse response; a path from the study file's folder. Empty: a simulated living room with an RT60
    of 0.5 s."""
    weakest_db: float = Field(default=50.0, ge=-40, le=100)
    """Direct-to-reverberant ratio just above strength 0."""
    strongest_db: float = Field(default=-10.0, ge=-40, le=100)
    """Direct-to-reverberant ratio at strength 100."""


def drr(x: Tensor, strength: float, rate_hz: int, options: Drr, seed: int) -> Tensor:
    if strength == 0:
        return x
    rest, _ = after_direct(options.file, rate_hz)
    level = 10 ** (-between(options.weakest_db, options.strongest_db, strength) / 20)
    return reverberant(x, rest * level / rest.square().sum().sqrt())
