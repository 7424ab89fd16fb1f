"""Feeds broken files to Limen within one process and says which of them end badly: a traceback, over 20
seconds, over 1 GiB.

By hand, with another seed and more of them:  PYTHONPATH=. python tests/fuzz/judging.py experiments --seed 7
--count 4000
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 20
"""Of computing: how busy the machine is changes nothing. One that only waits is stopped too, later."""
BYTES = 2**30


@dataclass
class Mutant:
    """One broken file and what is asked of it."""

    name: str
    run: Callable[[], Any]
    keep: Path
    """The file, to look at if it ends badly."""


class TooSlow(BaseException):
    """Not an Exception: what Limen catches for its own reasons must not hide it."""


def limen(*arguments: object) -> Callable[[], Any]:
    """The command as a user types it; exit codes 0 and 2 are good endings."""

    def run() -> None:
        from limen.cli import app as cli

        sys.argv = ["limen", *map(str, arguments)]
        try:
            cli.main()
        except SystemExit as end:
            if end.code not in (0, 2, None):
                raise AssertionError(f"exit code {end.code}") from None

    return run


def _stop(*_: Any) -> None:
    raise TooSlow


def ending(mutant: Mutant) -> str | None:
    """What is wrong with how it ended; None for a good ending."""
    from limen.core.errors import UserError

    said = io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(5 * SECONDS)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            mutant.run()
    except UserError as error:
        return None if str(error).strip() else "an empty message"
    except TooSlow:
        return f"over {SECONDS} s\n{traceback.format_exc(limit=-4)}"
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return "a traceback was printed" if "Traceback (most recent call last)" in said.getvalue() else None


def judge(mutants: Iterator[Mutant]) -> list[dict[str, str]]:
    """The bad endings. Memory is limited to what the process has after its first mutant, and one GiB more."""
    signal.signal(signal.SIGALRM, _stop)
    signal.signal(signal.SIGPROF, _stop)
    found = []
    for number, mutant in enumerate(mutants):
        if number == 1:
            used = next(
                int(line.split()[1])
                for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmData")
            )
            resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + BYTES, resource.RLIM_INFINITY))
        if (wrong := ending(mutant)) is not None:
            found.append(
                {"mutant": mutant.name, "wrong": wrong, "file": repr(mutant.keep.read_bytes()[:3000])}
            )
    return found


def bad_endings(kind: str, seed: int, count: int) -> list[dict[str, str]]:
    """`judge` in a process of its own, which nothing can take down with it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    command = [sys.executable, HERE / "judging.py", kind, "--seed", seed, "--count", count]
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), f"the process died with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    asked = parser.parse_args()
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.chdir(folder)
        make = import_module(f"broken_{asked.kind}").mutants
        found = judge(make(random.Random(asked.seed), asked.count, Path(folder)))
    print(json.dumps(found, indent=1))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
