"""What a person sees while an experiment runs: cells done, what is running, time left."""

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bar:
    """A progress bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console):
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> "Bar":
        self.progress.start()
        self.task = self.progress.add_task("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def begin(self, total: float) -> None:
        self.progress.update(self.task, total=total)

    def cell(self, number: int, count: int, words: str) -> None:
        self.progress.update(self.task, description=f"cell {number}/{count}  {words}")
        if not self.console.is_terminal:
            self.console.print(
                f"cell {number}/{count}  {words}", highlight=False, soft_wrap=True, markup=False
            )

    def advance(self, units: float) -> None:
        self.progress.advance(self.task, units)

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False, soft_wrap=True, markup=False)
