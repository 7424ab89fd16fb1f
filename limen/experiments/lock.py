"""One process at a time writes into a run folder. The system itself lets go of the lock when that process
ends, however it ends."""

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from limen.core.errors import UserError

NAME = ".lock"
UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What file systems answer that know no locks."""


@contextmanager
def locked(run: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the folder; a UserError names the process that holds it already. Worker processes do not inherit
    the lock."""
    path = run / NAME
    file = _opened(path, say)
    try:
        mine = {"pid": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        file.truncate(0)
        file.write(json.dumps(mine))
        file.flush()
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: the next process makes its own
        file.close()


def _opened(path: Path, say: Callable[[str], None]) -> TextIO:
    """The file, locked for as long as it is open."""
    while True:
        file = path.open("a+", encoding="utf-8")
        if not _taken(file, say):
            file.seek(0)
            holder = _holder(file.read())
            file.close()
            raise UserError(
                f"{path.parent} is being written by {holder}. Wait until it is done, stop it, or choose "
                "another folder with --out."
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # the one before removed it just now


def _taken(file: TextIO, say: Callable[[str], None]) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNKNOWN:
            say("this file system knows no locks: take care that no second run writes into the folder")
            return True
        return False
    return True


def _holder(text: str) -> str:
    try:
        known = json.loads(text)
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
