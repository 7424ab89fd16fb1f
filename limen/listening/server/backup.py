"""Consistent copies of a study's database, also while the study is served, by SQLite's online backup.

An SQLite file in use must not be copied as a file: the latest changes are in a separate log, and a copy made
during a write is inconsistent.
"""

import errno
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from limen.core.errors import UserError
from limen.listening.server.database import parse_url

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links: exFAT, many network shares."""


def backup(where: str | Path, to: Path) -> int:
    """Copy a database, given as a file or URL, to a new file that only its owner can read; returns the number
    of answers in it."""
    url = parse_url(where)
    if url.get_backend_name() == "postgresql":
        raise UserError(
            f"{url.render_as_string()}: copy a PostgreSQL database with its own tool, also while the study "
            f"is served: pg_dump --format=custom --file={to} "
            f"'{url.set(drivername='postgresql').render_as_string()}'"
        )
    source = Path(str(url.database))
    if not source.is_file():
        raise UserError(f"{source}: no such file. Expected the database of a study.")
    if not to.parent.is_dir():
        raise UserError(f"{to}: the folder {to.parent} does not exist.")
    if to.exists():
        raise UserError(f"{to} exists already, and a backup overwrites nothing. Choose another name.")
    try:
        # a temporary folder that only its owner can open
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as private:
            copy = Path(private) / "copy.db"
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            answers = _copy(source, copy)
            _flush(copy)
            _publish(copy, to)
            _flush(to.parent)
    except (sqlite3.Error, OSError) as error:
        raise UserError(
            f"{to}: the backup of {source} could not be written: {error}. No file was left behind."
        ) from None
    return answers


def _publish(copy: Path, to: Path) -> None:
    """Give the copy its final name; fails if the name exists by now."""
    try:
        os.link(copy, to)  # atomic
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
    target = os.fdopen(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    try:
        with target, copy.open("rb") as source:
            shutil.copyfileobj(source, target)
        _flush(to)
    except BaseException:
        to.unlink()
        raise


def _copy(source: Path, to: Path) -> int:
    """Copy the database, check the copy, and return the number of answers in it."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True, timeout=20)) as old,
        closing(sqlite3.connect(to)) as new,
    ):
        old.backup(new)  # all pages in one step: one moment in time, and writers need not wait
        new.execute("PRAGMA journal_mode=DELETE")  # a single file without a log
        (found,) = new.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged ({found})")
        return int(new.execute("SELECT count(*) FROM answers").fetchone()[0])


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
