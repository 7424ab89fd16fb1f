"""Perceptual speech quality (PESQ) of the adversarial clip, a mean opinion score from 1 to 4.64.

ITU-T P.862 and P.862.2, with the clean clip as reference. There are two bands: wide at 16 kHz and narrow at 8
kHz; clips of other rates are resampled to the widest band that their rate allows. Departs from the
recommendation: a clip of more than 20 s is scored in equal pieces, and the score is their mean over the
pieces with speech.
"""

import math
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from limen.audio.resample import resample
from limen.core.types import Samples
from limen.metrics.base.metric import SILENT, Column, Columns, MetricOptions, Missing, per_pair

RATES_HZ = {"wide": 16000, "narrow": 8000}
LONGEST_S = 20
"""The ITU's program holds 50 utterances and overflows without a check. Its shortest utterance and pause last
0.2 s each."""
TOO_SHORT = Missing("PESQ needs a quarter of a second, the clip is shorter")
NO_SPEECH = Missing("PESQ found no speech")


class Pesq(MetricOptions):
    band: Literal["auto", "wide", "narrow"] = "auto"
    """"wide": P.862.2 at 16 kHz; "narrow": P.862 at 8 kHz; "auto": wide for clips of 16 kHz and more."""
    kinds: ClassVar[tuple[str, ...]] = ("clip",)

    def columns(self) -> dict[str, Column]:
        return {
            "pesq": Column(
                "perceptual speech quality (mean opinion score, 1 to 4.64)",
                unit="MOS",
                better="higher",
                heading="PESQ",
                format="2f",
                headline=True,
                needs_attack=True,
            )
        }


def pesq(samples: Samples, options: Pesq) -> Columns:
    rate_hz = samples.rate_hz
    if rate_hz is None:
        return {"pesq": [Missing("the sample rate is not known")] * len(samples.batch)}
    band = options.band if options.band != "auto" else "wide" if rate_hz >= 16000 else "narrow"
    if rate_hz < RATES_HZ[band]:
        return {
            "pesq": [Missing(f"{band}-band PESQ needs {RATES_HZ[band]} Hz, the clip has {rate_hz}")]
            * len(samples.batch)
        }
    return {"pesq": per_pair(samples, lambda x, x_adv: _score(x, x_adv, rate_hz, band))}


def _score(x: Tensor, x_adv: Tensor, rate_hz: int, band: str) -> float | Missing:
    if not bool(x.any()):
        return SILENT
    if len(x) * 4 < rate_hz:
        return TOO_SHORT
    pair = [resample(t, rate_hz, RATES_HZ[band]).numpy() for t in (x, x_adv)]
    pieces = math.ceil(len(pair[0]) / (LONGEST_S * RATES_HZ[band]))
    scores = [
        _piece(ref, deg, band) for ref, deg in zip(*(np.array_split(t, pieces) for t in pair), strict=True)
    ]
    numbers = [s for s in scores if not isinstance(s, Missing)]
    return sum(numbers) / len(numbers) if numbers else scores[0]


def _piece(ref: np.ndarray, deg: np.ndarray, band: str) -> float | Missing:
    from pesq import BufferTooShortError, NoUtterancesError, PesqError
    from pesq import pesq as itu

    if not ref.any() or not deg.any():  # the ITU's program would divide by the power of both
        return NO_SPEECH
    try:
        value = float(itu(RATES_HZ[band], ref, deg, "wb" if band == "wide" else "nb"))
    except NoUtterancesError:
        return NO_SPEECH
    except BufferTooShortError:
        return TOO_SHORT
    except PesqError as error:
        return Missing(f"PESQ failed: {error}")
    return value if math.isfinite(value) else Missing("PESQ gave no finite score")
