"""Group commit: one thread writes, and commits everything that is waiting in one transaction. Callers are
answered after the commit.

A commit waits a few milliseconds for the disk. With one commit per answer a study could accept a few hundred
answers per second at best; here the answers that arrive during one commit share the next. Records are written
with few statements for all of them, because after every statement the writer has to wait for the
interpreter's lock.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import ResourceClosedError

from limen.listening.server.storage_failures import StorageFailures

T = TypeVar("T")
R = TypeVar("R")
Job = Callable[[Connection], Any]
MAX_BATCH = 256
"""Most jobs and records in one transaction."""


class Pending(NamedTuple):
    """A job or a record that waits for the next transaction."""

    job: Job | None
    record: Any
    future: "Future[Any]"


class GroupCommitWriter(Generic[R]):
    def __init__(
        self,
        engine: Engine,
        before_each: Job,
        write_records: Callable[[Connection, Sequence[R]], Sequence[bool]],
    ):
        """`before_each` runs first in every transaction; `write_records` writes records and returns which of
        them were new."""
        self._engine, self._before_each, self._write_records = engine, before_each, write_records
        self.failures = StorageFailures(engine)
        self._closed = False
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def run(self, job: Callable[[Connection], T]) -> T:
        """Run a job and return after its commit; a job that raises changes nothing."""
        return self.submit(job).result()

    def submit(self, job: Callable[[Connection], T]) -> "Future[T]":
        """Run a job without waiting; the future is done once it is committed."""
        return self._put(job, None)

    def submit_record(self, record: R) -> "Future[bool]":
        """Write a record without waiting; the future is done once it is committed."""
        return self._put(None, record)

    def _put(self, job: Job | None, record: R | None) -> "Future[Any]":
        if self._closed:
            raise ResourceClosedError("The store is closed.")
        future: Future[Any] = Future()
        # a waiting caller must not be able to cancel it: it may be committed already
        future.set_running_or_notify_cancel()
        self._queue.put(Pending(job, record, future))
        return future

    def close(self) -> None:
        """Finish everything submitted so far and refuse anything else."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        last = False
        while not last and (first := self._queue.get()) is not None:
            batch = [first]
            while not last and len(batch) < MAX_BATCH and not self._queue.empty():
                pending = self._queue.get()
                last = pending is None
                batch += [pending] if pending is not None else []
            self._commit(batch)

    def _commit(self, batch: list[Pending]) -> None:
        records = [(p.record, p.future) for p in batch if p.record is not None]
        results: list[tuple[Future[Any], Any]] = []
        try:
            with self._engine.connect().execution_options(write=True) as connection, connection.begin():
                self._before_each(connection)
                results += [(p.future, p.job(connection)) for p in batch if p.job is not None]
                if records:
                    is_new = self._write_records(connection, [record for record, _ in records])
                    results += zip((future for _, future in records), is_new, strict=True)
        except Exception as error:
            if len(batch) == 1:
                self.failures.record_failure(error)
                batch[0].future.set_exception(error)
            else:  # one of them failed and the transaction with it: repeat each by itself
                for pending in batch:
                    self._commit([pending])
            return
        self.failures.record_success()
        for future, result in results:
            future.set_result(result)
