"""Answers that cannot be stored: what the operator is told, in the log, by `limen listen monitor` and on
/admin.

Nothing is lost meanwhile: an answer is acknowledged after its commit alone, and the page keeps it and sends
it again.
"""

import logging
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from limen.core.errors import UserError
from limen.listening.server.database import address

LOG = logging.getLogger("limen.listening")
AGAIN_S = 60.0
"""Between two lines of the log about the same trouble."""
FULL_BYTES, LOW_BYTES = 2**20, 200 * 2**20
"""Free space below which a disk is called full, and nearly full."""
KEPT = "Listeners are told that their answer is not stored yet; their pages keep it and send it again."


class Trouble:
    """What went wrong with the database since it last went right."""

    def __init__(self, engine: Engine):
        sqlite = engine.dialect.name == "sqlite"
        self._file = Path(str(engine.url.database)) if sqlite else None
        self._where = str(self._file) if self._file else engine.url.render_as_string()
        self._error, self._since, self._tries, self._said_at = "", 0.0, 0, 0.0

    def failed(self, error: Exception) -> None:
        """A commit failed; what a caller did wrong is no trouble of the database."""
        if not isinstance(error, DBAPIError) or isinstance(error, IntegrityError):
            return
        if not self._error:
            self._since, self._tries, self._said_at = time.time(), 0, 0.0
        self._error, self._tries = self._reason(error), self._tries + 1
        if time.time() - self._said_at >= AGAIN_S:
            self._said_at = time.time()
            LOG.error("%s %s", _clock(self._said_at), self.now())

    def passed(self) -> None:
        """A commit went well."""
        if self._error:
            self._error = ""
            LOG.warning(
                "%s Answers are stored again; %d tries had failed since %s.",
                _clock(time.time()),
                self._tries,
                _clock(self._since),
            )

    def now(self) -> str:
        """What keeps answers from being stored; empty if nothing does."""
        if not self._error:
            return ""
        return (
            f"ANSWERS ARE NOT BEING STORED since {_clock(self._since)} ({self._tries} tries): "
            f"{self._error} {KEPT}"
        )

    def ahead(self) -> str:
        """The same, and what soon will."""
        free = self._free()
        if self._error or free is None or free >= LOW_BYTES:
            return self.now()
        if free < FULL_BYTES:
            return f"ANSWERS CANNOT BE STORED: {self._full()} {KEPT}"
        return (
            f"The disk of {self._where} is nearly full: {free / 2**20:.0f} MB are free. Make room before "
            "answers cannot be stored."
        )

    def _reason(self, error: DBAPIError) -> str:
        text = str(error.orig).strip()
        full = (
            "disk is full" in text
            or "No space left" in text
            or ((free := self._free()) is not None and free < FULL_BYTES)
        )
        return self._full() if full else f"the database {self._where} says: {text}."

    def _full(self) -> str:
        free = self._free()
        left = "" if free is None else f" ({free / 2**20:.1f} MB free)"
        return f"the disk of {self._where} is full{left}. Make room on it; the server need not be restarted."

    def _free(self) -> int | None:
        """Bytes that are left on the disk of a file of SQLite."""
        try:
            return shutil.disk_usage(self._file.parent).free if self._file else None
        except OSError:
            return None


@contextmanager
def database_errors(where: str | Path) -> Iterator[None]:
    """Makes a UserError of what the database at `where` refuses in here, as on a full disk, in place of a
    line of the log. For commands: the server goes on and tries again."""
    LOG.disabled = True
    try:
        yield
    except IntegrityError:  # a mistake of ours
        raise
    except (DBAPIError, sqlite3.Error) as error:
        text = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        raise UserError(
            f"The database {address(where).render_as_string()} says: {text}. See that there is room for it "
            "and that it can be written, then give the command again."
        ) from None
    finally:
        LOG.disabled = False


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
