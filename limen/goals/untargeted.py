"""Any answer but the right one, or any but the model's own."""

from typing import Literal

from limen.goals._goal import Asked, Goal
from limen.options import Options
from limen.types import predictions


class Untargeted(Options):
    away_from: Literal["label", "prediction"] = "label"
    """"label": move away from the truth, so a sample that is already wrong counts as fooled;
    "prediction": from the model's own clean answer."""


def untargeted(asked: Asked, options: Untargeted) -> Goal:
    reference = asked.y if options.away_from == "label" else predictions(asked.clean)
    return Goal(reference, targeted=False)
