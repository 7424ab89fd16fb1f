"""The class that the model finds least likely for the clean sample. Kurakin et al. 2017,
https://arxiv.org/abs/1607.02533.

With the attack bim this is their "iterative least-likely class method". Where there are many classes the
target is far from the truth (a dog becomes an aeroplane), which makes it the hardest class to reach and the
most telling success.
"""

from typing import ClassVar

from torch import Tensor

from limen.core.errors import UserError
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class LeastLikely(GoalOptions):
    """Nothing to choose."""

    targeted: ClassVar[bool] = True


def least_likely(asked: GoalContext, options: LeastLikely) -> Goal:
    if not isinstance(asked.own, Tensor):
        raise UserError(
            "The goal least_likely needs a classifier, but this model gives transcripts. Use the goal "
            '"transcript".'
        )
    return Goal(asked.own.argmin(1), targeted=True)
