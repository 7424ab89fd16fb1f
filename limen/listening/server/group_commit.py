"""One thread writes: whatever waits is committed together, and nobody is told before it is on the disk.

A commit waits for the disk, a few milliseconds. With a commit per answer a study would take a few hundred
answers per second at best, one after the other; here the answers that come in during one commit share the
next. They are written by few statements for all of them, since after every statement the writer has to get
hold of the interpreter again.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import ResourceClosedError

from limen.listening.server.storage_failures import Trouble

T = TypeVar("T")
R = TypeVar("R")
Job = Callable[[Connection], Any]
MOST = 256
"""Jobs and records in one transaction."""


class Writer(Generic[R]):
    def __init__(
        self, engine: Engine, opening: Job, together: Callable[[Connection, Sequence[R]], Sequence[bool]]
    ):
        """`opening` is run first in every transaction; `together` writes records and says which were new."""
        self._engine, self._opening, self._together = engine, opening, together
        self.trouble = Trouble(engine)
        self._closed = False
        self._waiting: queue.SimpleQueue[tuple[Job | None, R | None, Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def run(self, job: Callable[[Connection], T]) -> T:
        """Does a job and returns after its commit; a job that fails leaves no trace."""
        return self.start(job).result()

    def start(self, job: Callable[[Connection], T]) -> "Future[T]":
        """The same without waiting."""
        return self._put(job, None)

    def add(self, record: R) -> "Future[bool]":
        """Hands in a record; the future is done once it is committed."""
        return self._put(None, record)

    def _put(self, job: Job | None, record: R | None) -> "Future[Any]":
        if self._closed:
            raise ResourceClosedError("The store is closed.")
        future: Future[Any] = Future()
        # nobody who waits can call it off: it may be on the disk already
        future.set_running_or_notify_cancel()
        self._waiting.put((job, record, future))
        return future

    def close(self) -> None:
        """Ends after everything handed in so far; what comes later is refused."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        last = False
        while not last and (first := self._waiting.get()) is not None:
            batch = [first]
            while not last and len(batch) < MOST and not self._waiting.empty():
                one = self._waiting.get()
                last = one is None
                batch += [one] if one is not None else []
            self._commit(batch)

    def _commit(self, batch: list[tuple[Job | None, R | None, "Future[Any]"]]) -> None:
        records = [(record, future) for _, record, future in batch if record is not None]
        results: list[tuple[Future[Any], Any]] = []
        try:
            with self._engine.connect().execution_options(write=True) as connection, connection.begin():
                self._opening(connection)
                results += [(future, job(connection)) for job, _, future in batch if job is not None]
                if records:
                    new = self._together(connection, [record for record, _ in records])
                    results += zip((future for _, future in records), new, strict=True)
        except Exception as error:
            if len(batch) == 1:
                self.trouble.failed(error)
                batch[0][2].set_exception(error)
            else:  # one of them failed and took the others with it: each by itself
                for one in batch:
                    self._commit([one])
            return
        self.trouble.passed()
        for future, result in results:
            future.set_result(result)
