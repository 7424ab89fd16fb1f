"""The answers to one trial type, with the statistics that analyses use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from limen.core.components import parse
from limen.listening.analysis import breakdowns
from limen.listening.study import Item, Study
from limen.trials.base.findings import Estimate, Row, Where
from limen.trials.base.trial import TrialOptions, trial_type


@dataclass(frozen=True)
class TrialAnswers:
    """The answers to one trial type by all listeners who are not excluded:
    `limen.trials.base.findings.Answers`."""

    study: Study
    trial: str
    rows: Sequence[Row]
    bound: float
    """Largest difference from chance that counts as equivalent."""
    seed: int

    @property
    def type(self) -> type[TrialOptions]:
        return trial_type(self.trial)

    @property
    def items(self) -> Sequence[Item]:
        return self.study.items

    def options_of(self, row: Row) -> TrialOptions:
        """Options of the step of the study file that a row belongs to."""
        return options_of(self.study, row["step"])

    def cells(self, rows: Sequence[Row] | None = None) -> list[tuple[Where, list[Row]]]:
        return breakdowns.cells(self.study, self.rows if rows is None else rows)

    def share(self, rows: Sequence[Row], true: Sequence[bool]) -> Estimate:
        return breakdowns.share_of(rows, true)

    def mean(
        self, values: Sequence[float], rows: Sequence[Row], within: tuple[float, float] | None = None
    ) -> Estimate:
        return breakdowns.mean_of(values, rows, within)


def options_of(study: Study, step: int) -> TrialOptions:
    """Options of a step of the study file."""
    options: Any = parse("trials", study.steps[step])[1]
    assert isinstance(options, TrialOptions)
    return options
