"""What a task declares: its title, what it needs, what it costs and the columns it adds."""

from typing import Any, ClassVar

from limen.core.components import Component, parse
from limen.core.errors import UserError
from limen.core.options import Options
from limen.metrics.base.metric import Column
from limen.models.base.model import Model


class TaskOptions(Options):
    """Options of a task; class variables and methods declare what planning, estimates and tables must
    know."""

    title: ClassVar[str] = ""
    """Heading of the task's results in reports: "accuracy under attack". Empty: the name of the task."""
    needs_attack: ClassVar[bool] = False
    """True if a cell without an attack is an error."""
    audited: ClassVar[bool] = False
    """True if the nets and defences that this task attacks get an audit of their gradients."""
    diagnostic: ClassVar[bool] = False
    """True if the task checks an attack instead of evaluating the net: result tables leave its cells out."""
    trains: ClassVar[bool] = False
    """True if the task trains the net; it has the options `epochs` and `patience`, and its attack is
    unused."""
    sample_limit: ClassVar[str] = "limit_samples"
    """Option that limits the number of samples."""

    def sets_budget(self) -> bool:
        """True if the task gives each attack its budget."""
        return False

    def repeats(self) -> int:
        """How many times the task runs the attack."""
        return 1

    def cost(self, attack: float) -> float:
        """Work per sample, in gradients; `attack` is that of one run of the cell's attack."""
        return attack * self.repeats()

    def at_most(self, model: Model) -> int | None:
        """Number of samples at most; None if there is no limit."""
        return getattr(self, self.sample_limit, None)

    def limited(self, samples: int, model: Model) -> "TaskOptions":
        """The same options for `samples` samples."""
        return self.model_copy(update={self.sample_limit: samples})

    def columns(self) -> dict[str, Column]:
        """Columns that the task adds to those of the metrics and of every cell."""
        return {}


def parse_task(spec: Any) -> tuple[Component, TaskOptions]:
    """The task and its validated options."""
    component, options = parse("tasks", spec)
    if not isinstance(options, TaskOptions):
        raise UserError(
            f"The options of the task {component.name} must extend TaskOptions (limen/tasks/base/task.py), "
            f"but {type(options).__name__} does not."
        )
    return component, options
