"""Cells are computed one after the other in the process of the command."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from limen.experiments.engines.base.pool import EngineOptions, Pool, Watcher

T = TypeVar("T")


class Inline(EngineOptions):
    """No further options."""


@dataclass
class InlinePool:
    state: Any
    watcher: Watcher

    def map(
        self, function: Callable[..., T], items: Sequence[Any], words: Sequence[str] | None = None
    ) -> Iterator[T]:
        for number, item in enumerate(items):
            if words is not None:
                self.watcher.cell(number + 1, len(items), words[number])
            yield function(item, self.state, self.watcher)


@contextmanager
def inline(prepare: Callable[[], Any], watcher: Watcher, options: Inline) -> Iterator[Pool]:
    yield InlinePool(prepare(), watcher)
