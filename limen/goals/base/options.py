"""What every goal declares besides its options."""

from typing import ClassVar

from limen.core.options import Options


class GoalOptions(Options):
    """Base class of the options of every goal."""

    targeted: ClassVar[bool] = False
    """The goal is a chosen answer, not just any wrong one."""
