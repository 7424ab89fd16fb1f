"""Adaptive measurements: a psychometric fit for each listener and axis, and the threshold of the population.

Trials with two equal clips of the same axis have strength 0: they measure the rate of false alarms.
"""

import math
from collections.abc import Sequence
from typing import Any

from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.breakdowns import share_of
from limen.listening.analysis.result_types import Axis, Level, Threshold, Thresholds
from limen.perception import psychometric
from limen.perception.psychometric import Posterior, Prior
from limen.trials.base.findings import Estimate, Row

BIN = 10
"""Width of the bins of strengths in which answers are counted."""


def thresholds(answers: TrialAnswers) -> tuple[Thresholds | None, list[str]]:
    """None if nothing was adaptive."""
    signal = answers.type.signal
    assert signal is not None, "a trial type that tracks thresholds declares its signal"
    steps = {row["step"] for row in answers.rows if row["track"] is not None}
    rows = [
        {**row, "noticed": row["choice"] == signal.answer}
        for row in answers.rows
        if row["step"] in steps and row["axis"] is not None and row["strength"] is not None
    ]
    axes, listeners = [], []
    for axis in dict.fromkeys(row["axis"] for row in rows):
        part = [row for row in rows if row["axis"] == axis]
        options: Any = answers.options_of(part[0])
        prior = options.adaptive.prior
        by: dict[int, list[Row]] = {}
        for row in part:
            by.setdefault(row["listener"], []).append(row)
        fits = {listener: _fit(answered, prior) for listener, answered in by.items()}
        listeners += [_listener(axis, listener, fit) for listener, fit in fits.items()]
        axes.append(_axis(axis, part, list(fits.values()), prior))
    return (Thresholds(answers.trial, tuple(axes), tuple(listeners)) if axes else None), []


def _fit(rows: Sequence[Row], prior: Prior) -> Posterior:
    return psychometric.fit([float(row["strength"]) for row in rows], [row["noticed"] for row in rows], prior)


def _listener(axis: str, listener: int, fit: Posterior) -> Threshold:
    return Threshold(axis, listener, fit.trials, _estimate(fit.threshold), _estimate(fit.slope), fit.best)


def _estimate(e: psychometric.Estimate, over: str = "") -> Estimate:
    return Estimate(e.mean, e.low, e.high, over)


def _axis(axis: str, rows: Sequence[Row], fits: Sequence[Posterior], prior: Prior) -> Axis:
    population = psychometric.pooled(fits, prior)
    equal = [row for row in rows if row["strength"] == 0]
    slope = math.exp(sum(math.log(f.slope.median) for f in fits) / len(fits))
    lapse, gamma = (sum(getattr(f, name).mean for f in fits) / len(fits) for name in ("lapse", "gamma"))
    at = [prior.lowest + (prior.highest - prior.lowest) * k / 50 for k in range(51)]
    # a higher threshold lowers the curve, so the ends of its interval give the edges of the band
    lines = [
        psychometric.probability(at, t, slope, lapse, gamma).tolist()
        for t in (population.mean.mean, population.mean.high, population.mean.low)
    ]
    bins: dict[float, list[Row]] = {}
    for row in rows:
        bins.setdefault(round(row["strength"] / BIN) * BIN, []).append(row)
    return Axis(
        axis=axis,
        listeners=population.listeners,
        trials=len(rows),
        threshold=_estimate(population.mean, "listeners"),
        spread=_estimate(population.spread, "listeners"),
        false_alarms=_share(equal) if equal else Estimate(None),
        levels=tuple(Level(float(strength), len(of), _share(of)) for strength, of in sorted(bins.items())),
        curve=tuple(zip(at, *lines, strict=True)),
    )


def _share(rows: Sequence[Row]) -> Estimate:
    return share_of(rows, [row["noticed"] for row in rows])
