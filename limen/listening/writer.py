"""One thread writes: whatever waits is committed together, and nobody is told before it is on the disk.

A commit waits for the disk, a few milliseconds. With a commit per answer a study would take a few hundred answers per second at best, one
after the other; here the answers that come in during one commit share the next.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")
Job = Callable[[Connection], Any]
Waiting = tuple[Job, "Future[Any]"]
MOST = 256
"""Jobs in one transaction."""


class Writer:
    def __init__(self, engine: Engine, opening: Job):
        """`opening` is run first in every transaction."""
        self._engine, self._opening = engine, opening
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def start(self, job: Callable[[Connection], T]) -> "Future[T]":
        """Hands in a job; its future is done once the job is committed, or has failed and left no trace."""
        future: Future[T] = Future()
        self._waiting.put((job, future))
        return future

    def run(self, job: Callable[[Connection], T]) -> T:
        return self.start(job).result()

    def close(self) -> None:
        """Ends after everything handed in so far."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < MOST and not self._waiting.empty():
                if (job := self._waiting.get()) is None:
                    self._commit(batch)
                    return
                batch.append(job)
            self._commit(batch)

    def _commit(self, batch: list[Waiting]) -> None:
        try:
            with self._engine.connect().execution_options(write=True) as connection, connection.begin():
                self._opening(connection)
                results = [job(connection) for job, _ in batch]
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
            else:  # one of them failed and took the others with it: each by itself
                for one in batch:
                    self._commit([one])
            return
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)
