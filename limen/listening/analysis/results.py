"""What the answers of a study say, as plain data: `as_dict` of it is JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from limen.listening.analysis.exclusions import Exclusions
from limen.listening.analysis.result_types import (
    Choices,
    Estimate,
    Part,
    Preference,
    Rated,
    Thresholds,
    Transcriptions,
    Where,
)
from limen.listening.statistics.hearers import FEW, Hearers


@dataclass(frozen=True)
class HypothesisResult:
    """A hypothesis of the study file, for one value of `by`."""

    name: str
    kind: str
    trial: str
    where: Where
    n: int
    p: float | None
    """Holds under effects of listeners and of items."""
    p_corrected: float | None
    """Holm, over all hypotheses of the study."""
    p_independent: float | None
    """Of the plain exact test: what p would be if answers were independent."""
    alpha: float
    holds: bool | None
    """p_corrected < alpha. None: there were no answers to judge by. Of equivalence it is about the mean over
    listeners: see `verdict`."""
    power: float | None
    estimate: str
    """What was found, in words."""
    interval: Estimate
    """What was found, with the interval that belongs to `p`."""
    method: str
    hearers: Hearers | None = None
    """Of equivalence: how large a share of listeners may still hear it (or, in a preference, have a clear
    one)."""

    @property
    def verdict(self) -> Literal["yes", "on average only", "not shown", "no answers"]:
        """Equivalence of a mean is no yes if many listeners may hear it."""
        if self.holds is None:
            return "no answers"
        if not self.holds:
            return "not shown"
        return "on average only" if self.hearers is not None and self.hearers.high > FEW else "yes"


@dataclass(frozen=True)
class Times:
    kind: str
    n: int
    median_s: float
    quartiles_s: tuple[float, float]


@dataclass(frozen=True)
class Playback:
    trials: int
    """Answers to screens with sounds."""
    heard: int
    plays: float
    """Mean plays per screen."""
    rates_hz: tuple[tuple[str, int], ...]
    """Listeners by the rate of their device."""


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
    """Why the answers are hardly a listener's, whether or not a rule leaves them out for it."""


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
    """Answers to trials that count."""
    first: str
    last: str
    simulated: int
    """Listeners who are no people."""
    exclusions: Exclusions
    choices: tuple[Choices, ...]
    rated: tuple[Rated, ...]
    preference: tuple[Preference, ...]
    transcriptions: tuple[Transcriptions, ...]
    thresholds: tuple[Thresholds, ...]
    hypotheses: tuple[HypothesisResult, ...]
    times: tuple[Times, ...]
    playback: Playback
    people: tuple[Person, ...]
    notes: tuple[str, ...]
    """What was left out of the analysis, and why."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every trial type that was analysed."""
        return (*self.choices, *self.rated, *self.preference, *self.transcriptions, *self.thresholds)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        hypotheses = [asdict(h) | {"verdict": h.verdict} for h in self.hypotheses]
        return asdict(self) | {"same_fingerprint": self.exclusions.same, "hypotheses": hypotheses}
