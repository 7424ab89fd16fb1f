"""Short-time objective intelligibility (STOI) of the adversarial clip, about 0 to 1.

Taal et al. 2011, https://doi.org/10.1109/TASL.2011.2114881, with the clean clip as reference.
"""

import warnings
from typing import ClassVar

from torch import Tensor

from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair

TOO_SHORT = Missing("STOI needs 30 frames (0.41 s) that are not silent")
SHORTEST_S = (30 * 128 + 256) / 10000
"""30 frames of 256 samples every 128, at STOI's own 10 kHz."""
NOT_ENOUGH = 1e-5
"""Value that pystoi returns, with a warning, if fewer than 30 frames are left."""


class Stoi(MetricOptions):
    extended: bool = False
    """Use the extended measure of Jensen and Taal 2016, for noise that varies in time."""
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {
            "stoi": Column(
                "intelligibility, about 0 to 1",
                better="higher",
                heading="STOI",
                format="2f",
                needs_attack=True,
            )
        }


def stoi(samples: Samples, options: Stoi) -> Columns:
    rate_hz = samples.rate_hz
    if rate_hz is None:
        return {"stoi": [Missing("the sample rate is not known")] * len(samples.batch)}
    return {"stoi": per_pair(samples, lambda x, x_adv: _score(x, x_adv, rate_hz, options.extended))}


def _score(x: Tensor, x_adv: Tensor, rate_hz: int, extended: bool) -> float | Missing:
    from pystoi import stoi as pystoi

    if not bool(x.any()):
        return SILENT
    if len(x) / rate_hz < SHORTEST_S:
        return TOO_SHORT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        value = float(pystoi(x.numpy(), x_adv.numpy(), rate_hz, extended=extended))
    return TOO_SHORT if value == NOT_ENOUGH else value
