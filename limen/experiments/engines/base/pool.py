"""Interface between the driver of a run and the engines that compute its cells.

An engine is a context manager that yields a `Pool`. The driver only passes data to it: cells and functions
`function(item, state, watcher)`, where `state` is what `prepare()` returned in the process that calls them
(opened models and data sets). A function must give the same result in any process.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import Field

from limen.core.options import Options

T = TypeVar("T")


class EngineOptions(Options):
    """Options of every engine."""

    jobs: int = Field(default=1, ge=1)
    """Cells computed in parallel."""
    cells_mb: list[int] = Field(default_factory=list)
    """Memory that each cell needs, in MB; the command fills it in."""


class Watcher(Protocol):
    """Receives the progress of the cells."""

    def cell(self, number: int, count: int, words: str) -> None: ...
    def advance(self, units: float) -> None: ...
    def say(self, text: str) -> None: ...


class Pool(Protocol):
    """Applies a function to items."""

    def map(
        self, function: Callable[..., T], items: Sequence[Any], words: Sequence[str] | None = None
    ) -> Iterator[T]:
        """Results in order of completion. `words` describe the items for the progress display; without them
        nothing is displayed."""
        ...
