"""Cells in several processes of one machine, one thread's share of the cores each. What a cell gives does not
depend on where it ran."""

import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol

from limen.core.errors import UserError
from limen.core.interrupts import deferred_interrupt


class Watcher(Protocol):
    """What the processes tell whoever watches."""

    def cell(self, number: int, count: int, words: str) -> None: ...
    def advance(self, units: float) -> None: ...
    def say(self, text: str) -> None: ...


class Told:
    """Sends what a worker tells to the parent."""

    def __init__(self, told: Any):
        self.told = told

    def begin(self, total: float) -> None: ...

    def cell(self, number: int, count: int, words: str) -> None: ...

    def advance(self, units: float) -> None:
        self.told.put(("advance", units))

    def say(self, text: str) -> None:
        self.told.put(("say", text))


_state: dict[str, Any] = {}


def _start(told: Any, threads: int, prepare: Callable[[], Any]) -> None:
    """Once per worker: its share of the cores, and what it keeps from cell to cell."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(
            1, signal.SIGKILL
        )  # a worker dies with its parent, so a killed run leaves nobody writing
    threading.Thread(
        target=_end_with_parent, daemon=True
    ).start()  # on other systems, and if the parent is gone already
    import torch

    torch.set_num_threads(threads)
    _state.update(told=Told(told), kept=prepare())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _children_without_interrupts() -> Iterator[None]:
    """Processes started in here never get a Ctrl-C, from their first instruction on: the parent is
    interrupted and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(function: Callable[..., str], item: Any) -> str:
    return function(item, _state["kept"], _state["told"])


def run_in_workers(
    items: list[Any],
    words: list[str],
    function: Callable[..., str],
    prepare: Callable[[], Any],
    jobs: int,
    watcher: Watcher,
) -> Generator[str, None, None]:
    """`function(item, prepare(), progress)` of every item, `jobs` at a time; what it returns, as each is
    done."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    threads = max(1, (os.cpu_count() or 1) // jobs)
    others = set(multiprocessing.active_children())
    with (
        deferred_interrupt() as check_interrupt,
        ProcessPoolExecutor(jobs, context, _start, (told, threads, prepare)) as pool,
    ):
        try:
            with _children_without_interrupts():
                waiting: list[Future[str]] = [pool.submit(_work, function, item) for item in items]
            named, finished = dict(zip(waiting, words, strict=True)), 0
            while waiting:
                check_interrupt()
                _pass_on(told, watcher, check_interrupt)
                for future in [f for f in waiting if f.done()]:
                    waiting.remove(future)
                    finished += 1
                    watcher.cell(finished, len(items), f"done: {named[future]}")
                    yield future.result()
        except BaseException as error:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise UserError(
                    "A worker was ended by the system, often for lack of memory. Finished cells are kept: go "
                    f"on with --resume, and fewer --jobs than {jobs} or a smaller batch_size."
                ) from None
            raise


def _pass_on(told: Any, watcher: Watcher, check_interrupt: Callable[[], None]) -> None:
    """What the workers said since, waiting a moment for more."""
    try:
        kind, value = told.get(timeout=0.1)
        while True:
            getattr(watcher, kind)(value)
            check_interrupt()
            kind, value = told.get_nowait()
    except queue.Empty:
        pass
