"""Any answer except the right one, or any except the model's own."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from limen.core.text import How, normalised
from limen.core.types import predictions
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class Untargeted(GoalOptions):
    away_from: Literal["label", "prediction"] = "label"
    """"label": move away from the truth; a sample that is wrong without an attack is at the goal already, and
    is no success of the attack. "prediction": move away from the model's own clean answer."""
    at_least: float = Field(default=0.0, ge=0)
    """Recognisers: share of wrong words at which the goal is reached; 0: any difference."""
    normalise: How = "words"
    """Recognisers: how texts are compared."""


def untargeted(context: GoalContext, options: Untargeted) -> Goal:
    own = predictions(context.own)
    if isinstance(own, Tensor):
        return Goal(context.y if options.away_from == "label" else own, targeted=False)
    reference = (
        own
        if options.away_from == "prediction"
        else [_spelt(y, t, options.normalise) for y, t in zip(context.y, own, strict=True)]
    )
    return Goal(reference, targeted=False, normalise=options.normalise, at_least=options.at_least)


def _spelt(truth: str, transcript: str, how: How) -> str:
    """The truth as the model spells it, if its transcript is right: the loss of its own spelling is more
    informative than that of another."""
    return transcript if normalised(truth, how) == normalised(transcript, how) else truth
