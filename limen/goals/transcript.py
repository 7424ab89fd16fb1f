"""A chosen sentence: the recogniser must hear exactly this text."""

from pydantic import Field
from torch import Tensor

from limen.errors import UserError
from limen.goals._goal import Asked, Goal
from limen.options import Options


class Transcript(Options):
    text: str = Field(min_length=1)
    """What the model must write, in its own alphabet (case and spaces count)."""


def transcript(asked: Asked, options: Transcript) -> Goal:
    if isinstance(asked.clean, Tensor):
        raise UserError('The goal transcript needs a recogniser, but this model gives classes. Use the goal "target_class".')
    return Goal([options.text] * len(asked.y), targeted=True)
