"""Results of a study as plain data; `as_dict` gives JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from limen.listening.analysis.exclusions import Exclusions
from limen.listening.analysis.result_types import TrialResult
from limen.listening.statistics.hearers import FEW, Hearers
from limen.trials.base.findings import Estimate, Where


@dataclass(frozen=True)
class HypothesisResult:
    """A hypothesis of the study file, for one value of `by`."""

    name: str
    kind: str
    trial: str
    where: Where
    n: int
    p: float | None
    """Takes effects of listeners and of items into account."""
    p_corrected: float | None
    """Holm, over all hypotheses of the study."""
    p_independent: float | None
    """Exact test, assuming independent answers."""
    alpha: float
    holds: bool | None
    """p_corrected < alpha. None: there are no answers. For equivalence it is about the mean over listeners:
    see `verdict`."""
    power: float | None
    estimate: str
    """The estimate in words."""
    interval: Estimate
    """The estimate with the interval that belongs to `p`."""
    method: str
    hearers: Hearers | None = None
    """For equivalence: the share of listeners who may still hear the difference (or have a clear
    preference)."""

    @property
    def verdict(self) -> Literal["yes", "on average only", "not shown", "no answers"]:
        """Equivalence on average is not "yes" if many listeners may hear the difference."""
        if self.holds is None:
            return "no answers"
        if not self.holds:
            return "not shown"
        return "on average only" if self.hearers is not None and self.hearers.high > FEW else "yes"


@dataclass(frozen=True)
class Times:
    trial: str
    n: int
    median_s: float
    quartiles_s: tuple[float, float]


@dataclass(frozen=True)
class Playback:
    trials: int
    """Number of answered screens with sounds."""
    heard: int
    plays: float
    """Mean number of plays per screen."""
    rates_hz: tuple[tuple[str, int], ...]
    """Number of listeners by the sample rate of their device."""


@dataclass(frozen=True)
class Person:
    listener: int
    group: str
    trials: int
    right: tuple[tuple[str, int, int], ...]
    """Trial type, right answers, answers."""
    median_s: float | None
    minutes: float | None
    """From the first to the last answer."""
    heard: int
    with_sounds: int
    excluded: str
    evidence: str
    implausible: str
    """Why the answers are implausible, whether or not a rule excludes the listener for it."""


@dataclass(frozen=True)
class Results:
    study: str
    title: str
    fingerprint: str
    seed: int
    wanted: int
    listeners: int
    finished: int
    answers: int
    """Number of analysed answers to trials."""
    first: str
    last: str
    simulated: int
    """Number of simulated listeners."""
    exclusions: Exclusions
    trials: tuple[TrialResult, ...]
    """Results of every analysis, in the order in which trial types come in the study."""
    hypotheses: tuple[HypothesisResult, ...]
    times: tuple[Times, ...]
    playback: Playback
    people: tuple[Person, ...]
    notes: tuple[str, ...]
    """Answers that were not analysed, and why."""

    def of(self, analysis: str) -> tuple[Any, ...]:
        """Results of one analysis, for each trial type: `results.of("choices")`."""
        return tuple(result for result in self.trials if result.analysis == analysis)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        hypotheses = [asdict(h) | {"verdict": h.verdict} for h in self.hypotheses]
        trials = [{"analysis": result.analysis} | asdict(result) for result in self.trials]
        same = {"same_fingerprint": self.exclusions.same}
        return asdict(self) | same | {"hypotheses": hypotheses, "trials": trials}
