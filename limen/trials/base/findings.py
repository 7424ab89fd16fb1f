"""Data passed to and returned by the analysis of a trial type.

`Answers` offers the statistics that every analysis uses, so a trial type that computes results of its own
imports nothing but this file. `Findings` is what it returns; the results page draws its tables and charts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = Mapping[str, Any]
"""One answer, with the columns of `limen listen export`."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; None if there are too few answers."""

    value: float | None
    low: float | None = None
    high: float | None = None
    over: str = ""
    """What the interval generalises over: "listeners and items", or fewer if the design does not allow
    both."""
    items: int | None = None
    """Number of different items it is computed from; of a comparison, in the condition with fewer."""


@dataclass(frozen=True)
class Where:
    """A subset of the answers: all (no keys), or those with these values of these keys (group, condition, a
    factor)."""

    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " · ".join(self.values) or "all"


class Answers(Protocol):
    """The answers to one trial type by all listeners who are not excluded."""

    @property
    def trial(self) -> str:
        """Name of the trial type."""

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def items(self) -> Sequence[Any]:
        """Items of the study (limen.listening.study.Item)."""

    @property
    def seed(self) -> int:
        """Seed of any resampling."""

    def cells(self) -> list[tuple[Where, list[Row]]]:
        """All answers, then those of each condition, factor and group, and of each factor by condition."""

    def share(self, rows: Sequence[Row], true: Sequence[bool]) -> Estimate:
        """Share of the rows that are `true`, with its interval over listeners and items."""

    def mean(
        self, values: Sequence[float], rows: Sequence[Row], within: tuple[float, float] | None = None
    ) -> Estimate:
        """Mean of one value per row, with its interval over listeners and items; `within` are the ends of the
        scale."""


@dataclass(frozen=True)
class FindingsTable:
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Cells are text, numbers or an `Estimate`."""
    caption: str = ""
    percent: bool = False
    """Estimates are shares, shown in percent."""


@dataclass(frozen=True)
class FindingsChart:
    """Estimates with their intervals, one row each."""

    title: str
    rows: Sequence[tuple[str, Estimate]]
    x_label: str
    span: tuple[float, float]
    """Ends of the scale."""
    caption: str = ""
    percent: bool = False
    """Estimates are shares, drawn in percent."""
    rule: tuple[float, str] | None = None
    """A line to compare with: its value and its label, (0.5, "chance")."""


@dataclass(frozen=True)
class Findings:
    """Results of an analysis that a trial type brings itself."""

    sentences: Sequence[str]
    """What was found, for the top of the results page and the command line."""
    tables: Sequence[FindingsTable] = ()
    charts: Sequence[FindingsChart] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    """Name of each method -> how it works, for the section Methods."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Anything else for the JSON file of the results."""
