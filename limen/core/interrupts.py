"""Ctrl-C pressed twice is one wish to stop: the second one must not break off what the first one tidies
up."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAME_WISH = 2.0
"""Seconds after a KeyboardInterrupt in which further ones change nothing."""


class _Handler:
    def __init__(self) -> None:
        self.raised = -SAME_WISH

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.raised >= SAME_WISH:
            self.raised = now
            raise KeyboardInterrupt


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Several Ctrl-C within two seconds raise one KeyboardInterrupt. Where Ctrl-C is ignored or handled
    otherwise, nothing changes."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield
        return
    signal.signal(signal.SIGINT, _Handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """A Ctrl-C in here is raised by the function that is yielded, to be called where no lock is held and
    nothing is half done."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    pressed: list[int] = []

    def check() -> None:
        if pressed:
            before(signal.SIGINT, None)

    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
    check()
