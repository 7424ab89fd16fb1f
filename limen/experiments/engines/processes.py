"""Cells are computed in several processes of this machine, each with an equal share of the cores."""

import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import Field

from limen.core.errors import UserError
from limen.core.interrupts import deferred_interrupt
from limen.experiments.engines.base.pool import EngineOptions, Pool, Watcher
from limen.experiments.needs import available_memory_mb, jobs_that_fit, memory_text, most_memory_mb

T = TypeVar("T")


class Processes(EngineOptions):
    memory_mb: int | None = Field(default=None, ge=1)
    """Memory that all jobs may use together, in MB; null: what is free when the run starts."""


class RemoteWatcher:
    """Watcher of a worker process: sends every message to the parent."""

    def __init__(self, messages: Any):
        self.messages = messages

    def cell(self, number: int, count: int, words: str) -> None: ...

    def advance(self, units: float) -> None:
        self.messages.put(("advance", units))

    def say(self, text: str) -> None:
        self.messages.put(("say", text))


_worker: dict[str, Any] = {}


def _start_worker(messages: Any, threads: int, prepare: Callable[[], Any]) -> None:
    """Set the number of threads and prepare the state that a worker keeps between cells."""
    if sys.platform == "linux":
        # the worker dies with its parent, so no process of a killed run keeps writing
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    # the same on other systems, and if the parent has already ended
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    _worker.update(watcher=RemoteWatcher(messages), state=prepare())


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _children_without_interrupts() -> Iterator[None]:
    """Processes started inside never receive Ctrl-C, from their first instruction on: the parent ends
    them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _call(function: Callable[..., T], item: Any) -> T:
    return function(item, _worker["state"], _worker["watcher"])


@dataclass
class ProcessPool:
    executor: ProcessPoolExecutor
    messages: Any
    watcher: Watcher
    check_interrupt: Callable[[], None]

    def map(
        self, function: Callable[..., T], items: Sequence[Any], words: Sequence[str] | None = None
    ) -> Iterator[T]:
        with _children_without_interrupts():
            futures: list[Future[T]] = [self.executor.submit(_call, function, item) for item in items]
        description, finished = dict(zip(futures, words or [""] * len(futures), strict=True)), 0
        while futures:
            self.check_interrupt()
            self._forward_messages()
            for future in [f for f in futures if f.done()]:
                futures.remove(future)
                finished += 1
                if words is not None:
                    self.watcher.cell(finished, len(items), f"done: {description[future]}")
                yield future.result()

    def _forward_messages(self) -> None:
        """Pass messages of the workers to the watcher, waiting 0.1 s for the first."""
        try:
            kind, value = self.messages.get(timeout=0.1)
            while True:
                getattr(self.watcher, kind)(value)
                self.check_interrupt()
                kind, value = self.messages.get_nowait()
        except queue.Empty:
            pass


def _jobs(options: Processes, watcher: Watcher) -> int:
    """The jobs that fit into memory; a notice if they are fewer than the option."""
    available = options.memory_mb or available_memory_mb()
    jobs = jobs_that_fit(options.jobs, options.cells_mb, available)
    if jobs < options.jobs and available is not None:
        wanted = memory_text(most_memory_mb(options.jobs, options.cells_mb))
        watcher.say(
            f"{options.jobs} jobs need about {wanted} of memory, {memory_text(available)} are free: "
            f"using {jobs}"
        )
    return jobs


@contextmanager
def processes(prepare: Callable[[], Any], watcher: Watcher, options: Processes) -> Iterator[Pool]:
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    jobs = _jobs(options, watcher)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    not_ours = set(multiprocessing.active_children())
    with (
        deferred_interrupt() as check_interrupt,
        ProcessPoolExecutor(jobs, context, _start_worker, (messages, threads, prepare)) as executor,
    ):
        try:
            yield ProcessPool(executor, messages, watcher, check_interrupt)
        except BaseException as error:
            for process in set(multiprocessing.active_children()) - not_ours:
                process.kill()
            executor.shutdown(wait=True, cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise UserError(
                    "A worker process was killed by the system, often because memory ran out. Finished cells "
                    f"are kept. Resume with --resume and fewer --jobs than {jobs} or a smaller batch_size."
                ) from None
            raise
