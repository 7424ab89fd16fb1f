"""A copy of a study's database while it is served: the state of one moment, whole, by SQLite's own backup.

A file of SQLite that is being written must not be copied as a file: what was stored last stands in a log
beside it, and a copy made during a write is torn.
"""

import errno
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from limen.core.errors import UserError
from limen.listening.server.database import address

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems say that know no links: exFAT, many network shares."""


def backup(where: str | Path, to: Path) -> int:
    """Write a copy of a database, a file or a URL, to a new file that only its owner can read; returns the
    number of answers in it."""
    url = address(where)
    if url.get_backend_name() == "postgresql":
        raise UserError(
            f"{url.render_as_string()}: PostgreSQL makes its own copies, also of a study that is being "
            f"served: pg_dump --format=custom --file={to} "
            f"'{url.set(drivername='postgresql').render_as_string()}'"
        )
    source = Path(str(url.database))
    if not source.is_file():
        raise UserError(f"{source}: there is no such database of a study.")
    if not to.parent.is_dir():
        raise UserError(f"{to}: there is no folder {to.parent}.")
    if to.exists():
        raise UserError(f"{to}: is there already, and a backup never overwrites anything. Give another name.")
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{to.name}.", dir=to.parent
        ) as beside:  # only we can look into it
            copy = Path(beside) / "copy.db"
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            answers = _copied(source, copy)
            _flush(copy)
            _put(copy, to)
            _flush(to.parent)
    except (sqlite3.Error, OSError) as error:
        raise UserError(
            f"{to}: the backup of {source} could not be written: {error}. Nothing was left there."
        ) from None
    return answers


def _put(copy: Path, to: Path) -> None:
    """Gives the copy its name; fails if another process was faster."""
    try:
        os.link(copy, to)  # whole or not at all
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


def _copied(source: Path, to: Path) -> int:
    """Number of answers in the copy, which was looked through."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True, timeout=20)) as old,
        closing(sqlite3.connect(to)) as new,
    ):
        old.backup(new)  # all pages at once: one moment, and whoever writes need not wait
        new.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
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
