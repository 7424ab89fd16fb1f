"""A lock that lets one process at a time write into a run folder. The operating system releases it when the
process ends for any reason."""

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
UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of file systems without locks."""


@contextmanager
def locked(run: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Lock the folder; a UserError names the process that holds the lock. Worker processes do not inherit
    it."""
    path = run / NAME
    file = _open_locked(path, say)
    try:
        holder = {"pid": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        file.truncate(0)
        file.write(json.dumps(holder))
        file.flush()
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while the lock is held: the next process creates a new file
        file.close()


def _open_locked(path: Path, say: Callable[[str], None]) -> TextIO:
    """The open file; it is locked until it is closed."""
    while True:
        file = path.open("a+", encoding="utf-8")
        if not _lock(file, say):
            file.seek(0)
            holder = _holder(file.read())
            file.close()
            raise UserError(
                f"{path.parent} is being written by {holder}. Wait until it ends, stop it, or choose "
                "another folder with --out."
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # another process has just removed it


def _lock(file: TextIO, say: Callable[[str], None]) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            say("this file system has no locks: make sure that no second run writes into the folder")
            return True
        return False
    return True


def _holder(text: str) -> str:
    try:
        known = json.loads(text)
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
