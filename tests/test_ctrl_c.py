"""Ctrl-C, once and held back: real signals to this process and to one with workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limen.core.interrupts import DEBOUNCE_S, deferred_interrupt, single_interrupt

ROOT = Path(__file__).parents[1]
STUDIED = """
import os, signal, sys, time
from limen.experiments.engines.processes import Processes, processes
from limen.core.interrupts import single_interrupt

def nothing(): ...

def endless(item, kept, progress):
    while True:
        progress.advance(1.0)
        time.sleep(0.01)

class Watcher:
    def cell(self, number, count, words): ...
    def say(self, text): ...
    def advance(self, units):
        os.killpg(0, signal.SIGINT)
        time.sleep(0.3)
        print("told to the end", flush=True)

if __name__ == "__main__":
    try:
        with single_interrupt():
            with processes(nothing, Watcher(), Processes(jobs=2)) as pool:
                for _ in pool.map(endless, ["a", "b"], ["a", "b"]): ...
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_does_not_break_off_the_tidying_of_the_first():
    done = []

    @single_interrupt()
    def work() -> None:
        try:
            press()
        finally:
            press()
            done.append("tidied")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["tidied"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ctrl_c_that_was_lost_can_be_pressed_again(monkeypatch):
    now = time.monotonic()
    with single_interrupt():
        with pytest.raises(KeyboardInterrupt):
            press()
        monkeypatch.setattr(time, "monotonic", lambda: now + 2 * DEBOUNCE_S)
        with pytest.raises(KeyboardInterrupt):
            press()


def test_a_handler_of_the_users_stays():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with single_interrupt():
            press()
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [signal.SIGINT]


def test_a_held_back_ctrl_c_is_raised_where_it_is_asked_for():
    reached = []

    def work() -> None:
        with deferred_interrupt() as check:
            check()
            press()
            reached.append("after")
            check()
            reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["after"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ctrl_c_held_back_to_the_end_is_raised_there():
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        press()


def test_workers_are_ended_between_two_messages_never_in_the_middle_of_one(tmp_path):
    """In the middle of one this process may hold a lock that ending the workers needs."""
    (tmp_path / "studied.py").write_text(STUDIED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "studied.py"],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    said, wrong = process.communicate(timeout=120)
    assert wrong == ""
    assert said.splitlines()[-1] == "interrupted"
    assert set(said.splitlines()[:-1]) == {"told to the end"}
