"""The class that the model finds least likely for the clean sample. Kurakin et al. 2017,
https://arxiv.org/abs/1607.02533.

With the attack bim this is their "iterative least-likely class method". If there are many classes the target
is far from the truth (a dog becomes an aeroplane), which makes it the hardest class to reach.
"""

from torch import Tensor

from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import GoalOptions


class LeastLikely(GoalOptions):
    """Nothing to choose."""

    targeted = True
    outputs = ("class",)


def least_likely(context: GoalContext, options: LeastLikely) -> Goal:
    assert isinstance(context.own, Tensor)
    return Goal(context.own.argmin(1), targeted=True)
