"""Handling of Ctrl-C: a second press within two seconds must not interrupt the clean-up after the first."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

DEBOUNCE_S = 2.0
"""Seconds after a KeyboardInterrupt during which further ones are ignored."""


class _Handler:
    def __init__(self) -> None:
        self.raised = -DEBOUNCE_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.raised >= DEBOUNCE_S:
            self.raised = now
            raise KeyboardInterrupt


@contextmanager
def single_interrupt() -> Iterator[None]:
    """Raise one KeyboardInterrupt for several Ctrl-C within two seconds. Does nothing if Ctrl-C is ignored or
    has another handler."""
    default_handler = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not default_handler:
        yield
        return
    signal.signal(signal.SIGINT, _Handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Defer a Ctrl-C: the yielded function raises it, to be called when no lock is held and nothing is half
    done."""
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
