"""Accuracy, clean or under attack, and the cost of the attack: one row per sample."""

from typing import Any, ClassVar

from pydantic import Field

from limen.attacks.engine.physical import OverTheAir, over_the_air
from limen.core.types import Samples
from limen.goals.base.goal import Goal
from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.evaluation import evaluate, successes_first
from limen.tasks.base.export import Export
from limen.tasks.base.task import TaskOptions


class Accuracy(TaskOptions):
    title: ClassVar[str] = "accuracy under attack"
    audited: ClassVar[bool] = True
    limit_samples: int | None = Field(default=None, ge=1)
    """Evaluate at most this many samples, the first in the order of the data; null evaluates all."""
    export: Export | None = None
    """Write every clean and adversarial sample and a table into the cell's folder `adversarial`, for other
    tools: clips as 16-bit files of this format, pictures as PNG; null writes nothing."""
    over_the_air: OverTheAir | None = None
    """Also judge every sample under fresh draws of transforms, {through: [{name: room}], draws: 20}: the
    column `over_the_air` is the share of draws in which the attack reaches its goal, `clean_over_the_air` the
    share in which the transforms alone reach it; null omits both."""


def accuracy(cell: Cell, options: Accuracy) -> Outcome:
    def more_columns(samples: Samples, goal: Goal | None) -> dict[str, list[Any]]:
        if options.over_the_air is None or goal is None:
            return {}
        return _over_the_air(cell, samples, goal, options.over_the_air)

    return evaluate(cell, options.limit_samples, options.export, successes_first(cell.examples), more_columns)


def _over_the_air(cell: Cell, samples: Samples, goal: Goal, options: OverTheAir) -> dict[str, list[float]]:
    both = {"over_the_air": samples.x_adv, "clean_over_the_air": samples.batch.x}
    return {
        name: over_the_air(cell.victim, samples.batch, x, goal, options, seed=cell.seed).tolist()
        for name, x in both.items()
    }
