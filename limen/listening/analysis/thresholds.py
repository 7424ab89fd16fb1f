"""Same or different with adaptive strengths: a psychometric fit per listener and axis, and the threshold of
the population.

Trials with two equal clips of the same axis count as strength 0: they tell the rate of false alarms.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from limen.core.components import parse
from limen.listening.analysis.breakdowns import share_of
from limen.listening.analysis.result_types import Axis, Estimate, Level, Threshold, Thresholds
from limen.listening.study import Study
from limen.perception import psychometric
from limen.perception.psychometric import Posterior, Prior

Row = Mapping[str, Any]
BIN = 10
"""Width of the bins of strengths in which answers are counted."""


def thresholds(study: Study, kind: str, rows: Sequence[Row]) -> Thresholds | None:
    """None where nothing was adaptive."""
    steps = {row["step"] for row in rows if row["track"] is not None}
    mine = [
        row
        for row in rows
        if row["step"] in steps and row["axis"] is not None and row["strength"] is not None
    ]
    axes, people = [], []
    for axis in dict.fromkeys(row["axis"] for row in mine):
        of_axis = [row for row in mine if row["axis"] == axis]
        options: Any = parse("trials", study.steps[of_axis[0]["step"]])[1]
        prior = options.adaptive.prior
        listeners: dict[int, list[Row]] = {}
        for row in of_axis:
            listeners.setdefault(row["listener"], []).append(row)
        fits = {who: psychometric.fit(*_answers(answered), prior) for who, answered in listeners.items()}
        people += [_person(axis, who, fit) for who, fit in fits.items()]
        axes.append(_axis(axis, of_axis, list(fits.values()), prior))
    return Thresholds(kind, tuple(axes), tuple(people)) if axes else None


def _answers(rows: Sequence[Row]) -> tuple[list[float], list[bool]]:
    return [float(row["strength"]) for row in rows], [row["choice"] == "different" for row in rows]


def _person(axis: str, listener: int, fit: Posterior) -> Threshold:
    return Threshold(axis, listener, fit.trials, _estimate(fit.threshold), _estimate(fit.slope), fit.best)


def _estimate(e: psychometric.Estimate, over: str = "") -> Estimate:
    return Estimate(e.mean, e.low, e.high, over)


def _axis(axis: str, rows: Sequence[Row], fits: Sequence[Posterior], prior: Prior) -> Axis:
    whole = psychometric.pooled(fits, prior)
    equal = [row for row in rows if row["strength"] == 0]
    slope = math.exp(sum(math.log(f.slope.median) for f in fits) / len(fits))
    lapse, gamma = (sum(getattr(f, name).mean for f in fits) / len(fits) for name in ("lapse", "gamma"))
    at = [prior.lowest + (prior.highest - prior.lowest) * k / 50 for k in range(51)]
    # the curve falls as the threshold rises, so the ends of the threshold's interval are the edges of the
    # band
    lines = [
        psychometric.probability(at, t, slope, lapse, gamma).tolist()
        for t in (whole.mean.mean, whole.mean.high, whole.mean.low)
    ]
    bins: dict[float, list[Row]] = {}
    for row in rows:
        bins.setdefault(round(row["strength"] / BIN) * BIN, []).append(row)
    return Axis(
        axis=axis,
        listeners=whole.listeners,
        trials=len(rows),
        threshold=_estimate(whole.mean, "listeners"),
        spread=_estimate(whole.spread, "listeners"),
        false_alarms=_share(equal) if equal else Estimate(None),
        levels=tuple(
            Level(float(strength), len(found), _share(found)) for strength, found in sorted(bins.items())
        ),
        curve=tuple(zip(at, *lines, strict=True)),
    )


def _share(rows: Sequence[Row]) -> Estimate:
    return share_of(rows, [row["choice"] == "different" for row in rows])
