"""What the answers to each trial type say, as plain data."""

from dataclasses import dataclass

from limen.listening.statistics.hearers import Hearers


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; None where there is none (too few answers)."""

    value: float | None
    low: float | None = None
    high: float | None = None
    over: str = ""
    """What the interval holds for beyond those heard: "listeners and items", or fewer where the design cannot
    tell."""
    items: int | None = None
    """Different items that it comes from, of two conditions in that with fewer."""


@dataclass(frozen=True)
class Where:
    """Which answers: all (no keys), or those with these values of these keys (group, condition, a factor)."""

    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " · ".join(self.values) or "all"


@dataclass(frozen=True)
class Sure:
    """Answers of one confidence."""

    confidence: str
    n: int
    of_all: float
    """Share of all answers."""
    right: int
    share: Estimate
    """Share of right answers among them."""


@dataclass(frozen=True)
class Independent:
    """What exact tests would say if answers were independent: of one listener no more alike than of
    several."""

    interval: Estimate
    """Clopper-Pearson."""
    p_greater: float
    p_two_sided: float
    p_equivalent: float | None


@dataclass(frozen=True)
class Share:
    """Right answers of a choice."""

    where: Where
    n: int
    right: int
    share: Estimate
    """Over listeners and items: the interval holds for others like them. None from a single listener, as of
    the p below."""
    listeners: int
    items: int
    over: str
    """What interval and tests hold for beyond those heard: "listeners and items", or fewer where the design
    cannot tell."""
    design_effect: float | None
    """So many answers are worth one independent one."""
    df: float | None
    chance: float
    p_greater: float | None
    """One-sided: better than chance."""
    p_two_sided: float | None
    bound: float
    p_equivalent: float | None
    """Two one-sided tests: the share lies within `bound` of chance; None where chance is nearer to 0 or 1
    than the bound."""
    independent: Independent
    hearers: Hearers
    """Share of listeners who may hear it."""
    d_prime: Estimate
    """Negative below chance, so that it is 0 on average where nothing is heard."""
    d_prime_truncated: Estimate
    """The same with 0 below chance."""
    bias: float | None
    """Criterion c; 0: neither answer is preferred."""
    sure: tuple[Sure, ...] = ()


@dataclass(frozen=True)
class Confusion:
    """How often each answer was given (columns) for each truth (rows)."""

    where: Where
    truths: tuple[str, ...]
    answers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Mixed:
    """Mixed-effects logistic regression of right answers: listeners and items as random intercepts. It
    describes; verdicts are not its."""

    names: tuple[str, ...]
    """What each coefficient compares."""
    log_odds: tuple[Estimate, ...]
    p: tuple[float, ...]
    listener_sd: float
    item_sd: float


@dataclass(frozen=True)
class Choices:
    """A trial type with a right answer: abx, identification, same_different at fixed levels, transcription
    word for word."""

    kind: str
    shares: tuple[Share, ...]
    confusions: tuple[Confusion, ...]
    mixed: Mixed | None
    agreement: Estimate
    """Krippendorff's alpha of what listeners answered to the same item and condition."""
    others: tuple[tuple[str, int], ...] = ()
    """Free answers beside the choices, the most frequent first."""


@dataclass(frozen=True)
class Ratings:
    """Numbers given under one condition."""

    where: Where
    n: int
    counts: tuple[int, ...]
    """Answers of each level, lowest first; empty for a slider."""
    mean: Estimate
    """Over listeners and items."""
    median: float
    quartiles: tuple[float, float]
    good: Estimate
    """Share of ratings of at least `Rated.good_from`, over listeners and items."""
    good_n: int
    bad_n: int
    """Ratings of at most `Rated.bad_to`."""


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
    """What it holds for beyond those heard."""
    p_independent: float
    """Of a test of the whole distributions, if answers were independent."""
    error: float
    """Standard error of `p_independent` by simulation; 0: it is exact."""
    method: str
    """Of `p_independent`."""


@dataclass(frozen=True)
class Rated:
    """A trial type answered with a number: naturalness, mushra."""

    kind: str
    levels: tuple[float, ...]
    """Steps of the scale; empty for a slider."""
    good_from: float
    bad_to: float
    ratings: tuple[Ratings, ...]
    comparisons: tuple[Comparison, ...]
    agreement: Estimate


@dataclass(frozen=True)
class Transcribed:
    """What was typed against what was said: lower case, only letters, digits and apostrophes."""

    where: Where
    n: int
    exact: Estimate
    """Share typed word for word, over listeners and items."""
    wer: Estimate
    """Word errors over words said, over listeners and items."""


@dataclass(frozen=True)
class Transcriptions:
    kind: str
    cells: tuple[Transcribed, ...]
    worst: tuple[tuple[str, str, int], ...]
    """Said, typed, how often: the most frequent mistakes."""


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
    """Among those who preferred one of the two, over listeners and items."""
    p_two_sided: float | None
    p_independent: float
    """Exact binomial, if answers were independent."""


@dataclass(frozen=True)
class Preference:
    kind: str
    n: int
    pairs: tuple[PreferencePair, ...]
    worth: tuple[tuple[str, Estimate], ...]
    """Bradley-Terry: logarithm of each condition's worth, mean 0; the best first."""


@dataclass(frozen=True)
class Threshold:
    """One listener on one axis: the level heard half the time."""

    axis: str
    listener: int
    trials: int
    threshold: Estimate
    slope: Estimate
    best: dict[str, float]
    """Most probable point: threshold, slope, lapse, gamma."""


@dataclass(frozen=True)
class Level:
    """Share of "different" around one strength, over listeners."""

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
    """Share of "different" where nothing was changed; no value if never asked."""
    levels: tuple[Level, ...]
    curve: tuple[tuple[float, float, float, float], ...]
    """Strength, share of "different" expected of the population's mean listener, and its 95 % band."""


@dataclass(frozen=True)
class Thresholds:
    kind: str
    axes: tuple[Axis, ...]
    listeners: tuple[Threshold, ...]


Part = Choices | Rated | Preference | Transcriptions | Thresholds
