"""What every goal declares besides its options, and how a goal is made."""

from typing import ClassVar

from limen.core.components import Component, load, names
from limen.core.errors import UserError
from limen.core.options import Options
from limen.goals.base.goal import Goal, GoalContext


class GoalOptions(Options):
    """Base class of the options of every goal."""

    targeted: ClassVar[bool] = False
    """The goal is a chosen answer, not just any wrong one."""
    outputs: ClassVar[tuple[str, ...]] = ("class", "transcript")
    """Outputs of a model (`Model.output`) for which the goal can be set."""


def make_goal(goal: tuple[Component, Options], context: GoalContext, output: str) -> Goal:
    """The goal for the samples of the context; a model whose `output` the goal is not for is refused."""
    component, options = goal
    if output not in _outputs(component):
        others = [name for name in names("goals") if output in _outputs(load("goals", name))]
        raise UserError(
            f"The goal {component.name} is for models that give {_plural(*_outputs(component))}; this one "
            f"gives {_plural(output)}. Goals for it: {', '.join(others) or 'none'}."
        )
    built: Goal = component.function(context, options)
    return built


def _outputs(component: Component) -> tuple[str, ...]:
    if not issubclass(component.options, GoalOptions):
        raise UserError(
            f"The options of the goal {component.name} must extend GoalOptions of limen.goals.base.options; "
            f"got {component.options.__name__}."
        )
    return component.options.outputs


def _plural(*outputs: str) -> str:
    """class, transcript -> classes or transcripts."""
    return " or ".join(f"{output}es" if output.endswith("s") else f"{output}s" for output in outputs)
