"""Results of each analysis, as plain data."""

from dataclasses import dataclass
from typing import ClassVar

from limen.listening.statistics.hearers import Hearers
from limen.trials.base.findings import Estimate, Findings, Where


@dataclass(frozen=True)
class TrialResult:
    """Results of one analysis of the answers to one trial type."""

    analysis: ClassVar[str]
    """Name of the analysis, and of the file in limen/report/study/sections that shows it."""
    trial: str


@dataclass(frozen=True)
class Confidence:
    """Answers given with one confidence."""

    confidence: str
    n: int
    of_all: float
    """Share of all answers."""
    right: int
    share: Estimate
    """Share of right answers among them."""


@dataclass(frozen=True)
class Independent:
    """Exact tests under the assumption that answers are independent: those of one listener no more alike than
    those of several."""

    interval: Estimate
    """Clopper-Pearson."""
    p_greater: float
    p_two_sided: float
    p_equivalent: float | None


@dataclass(frozen=True)
class Share:
    """Share of right answers."""

    where: Where
    n: int
    right: int
    share: Estimate
    """The interval generalises over listeners and items. Like the p values below, it is None for a single
    listener."""
    listeners: int
    items: int
    over: str
    """What interval and tests generalise over: "listeners and items", or fewer if the design does not allow
    both."""
    design_effect: float | None
    """Number of answers that carry as much information as one independent answer."""
    df: float | None
    chance: float
    p_greater: float | None
    """One-sided: better than chance."""
    p_two_sided: float | None
    bound: float
    p_equivalent: float | None
    """Two one-sided tests: the share is within `bound` of chance; None if chance is nearer to 0 or 1 than the
    bound."""
    independent: Independent
    hearers: Hearers
    """Share of listeners who may hear the difference."""
    d_prime: Estimate
    """Negative below chance, so that it is 0 on average if nothing is heard."""
    d_prime_truncated: Estimate
    """The same, 0 below chance."""
    bias: float | None
    """Criterion c; 0: neither answer is preferred."""
    confidence: tuple[Confidence, ...] = ()


@dataclass(frozen=True)
class Confusion:
    """How often each answer was given (columns) for each truth (rows)."""

    where: Where
    truths: tuple[str, ...]
    answers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Mixed:
    """Mixed-effects logistic regression of right answers: listeners and items as random intercepts.
    Descriptive; no verdict is based on it."""

    names: tuple[str, ...]
    """What each coefficient compares."""
    log_odds: tuple[Estimate, ...]
    p: tuple[float, ...]
    listener_sd: float
    item_sd: float


@dataclass(frozen=True)
class Choices(TrialResult):
    """Answers that are right or wrong."""

    analysis: ClassVar[str] = "choices"
    shares: tuple[Share, ...]
    confusions: tuple[Confusion, ...]
    mixed: Mixed | None
    agreement: Estimate
    """Krippendorff's alpha between listeners for the same item and condition."""
    typed: tuple[tuple[str, int], ...] = ()
    """Free-text answers, the most frequent first."""


@dataclass(frozen=True)
class Ratings:
    """Numbers given under one condition."""

    where: Where
    n: int
    counts: tuple[int, ...]
    """Number of ratings of each level, lowest first; empty for a slider."""
    mean: Estimate
    """Over listeners and items."""
    median: float
    quartiles: tuple[float, float]
    good: Estimate
    """Share of ratings of at least `good_from`, over listeners and items."""
    good_n: int
    bad_n: int
    """Number of ratings of at most `bad_to`."""


@dataclass(frozen=True)
class Comparison:
    """Whether ratings differ between two conditions."""

    where: Where
    conditions: tuple[str, str]
    difference: Estimate
    """Mean of the second condition minus mean of the first, over listeners and items."""
    p: float | None
    """That the difference is 0, two-sided; None from a single listener."""
    df: float | None
    over: str
    """What it generalises over."""
    p_independent: float
    """Test of equal distributions, assuming independent answers."""
    error: float
    """Standard error of `p_independent` by simulation; 0: it is exact."""
    method: str
    """Method of `p_independent`."""


@dataclass(frozen=True)
class Rated(TrialResult):
    """Ratings on a scale of a few steps."""

    analysis: ClassVar[str] = "ratings"
    levels: tuple[float, ...]
    """Steps of the scale; empty for a slider."""
    good_from: float
    bad_to: float
    ratings: tuple[Ratings, ...]
    comparisons: tuple[Comparison, ...]
    agreement: Estimate


@dataclass(frozen=True)
class Sliders(Rated):
    """Ratings from 0 to 100."""

    analysis: ClassVar[str] = "sliders"


@dataclass(frozen=True)
class Transcribed:
    """Typed texts compared with the spoken ones: lower case, only letters, digits and apostrophes."""

    where: Where
    n: int
    exact: Estimate
    """Share typed word for word, over listeners and items."""
    wer: Estimate
    """Word errors divided by words spoken, over listeners and items."""


@dataclass(frozen=True)
class Transcriptions(TrialResult):
    analysis: ClassVar[str] = "transcriptions"
    cells: tuple[Transcribed, ...]
    mistakes: tuple[tuple[str, str, int], ...]
    """Spoken text, typed text and count of the most frequent mistakes."""


@dataclass(frozen=True)
class PreferencePair:
    """How often the first of two conditions was preferred to the second."""

    first: str
    second: str
    n: int
    ties: int
    wins: float
    """A tie counts half."""
    share: Estimate
    """Among the answers without ties, over listeners and items."""
    p_two_sided: float | None
    p_independent: float
    """Exact binomial test, assuming independent answers."""


@dataclass(frozen=True)
class Preference(TrialResult):
    analysis: ClassVar[str] = "preference"
    n: int
    pairs: tuple[PreferencePair, ...]
    worth: tuple[tuple[str, Estimate], ...]
    """Bradley-Terry: logarithm of each condition's worth, mean 0; the best first."""


@dataclass(frozen=True)
class Threshold:
    """Threshold of one listener on one axis: the strength noticed half the time."""

    axis: str
    listener: int
    trials: int
    threshold: Estimate
    slope: Estimate
    best: dict[str, float]
    """Posterior mode: threshold, slope, lapse, gamma."""


@dataclass(frozen=True)
class Level:
    """Share of "different" near one strength, over listeners."""

    strength: float
    n: int
    share: Estimate


@dataclass(frozen=True)
class Axis:
    axis: str
    listeners: int
    trials: int
    threshold: Estimate
    """Mean over the population that the listeners come from."""
    spread: Estimate
    """Standard deviation between listeners."""
    false_alarms: Estimate
    """Share of "different" for equal clips; no value if there were none."""
    levels: tuple[Level, ...]
    curve: tuple[tuple[float, float, float, float], ...]
    """Strength, expected share of "different" of the mean listener, and its 95 % band."""


@dataclass(frozen=True)
class Thresholds(TrialResult):
    analysis: ClassVar[str] = "thresholds"
    axes: tuple[Axis, ...]
    listeners: tuple[Threshold, ...]


@dataclass(frozen=True)
class Own(TrialResult):
    """Results of an analysis that the trial type brings itself."""

    analysis: ClassVar[str] = "own"
    findings: Findings
