"""Failures to store answers, and their messages in the log, in `limen listen monitor` and on /admin.

No answer is lost meanwhile: an answer is acknowledged only after its commit, and the page keeps it and sends
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
from limen.listening.server.database import parse_url

LOG = logging.getLogger("limen.listening")
REPEAT_S = 60.0
"""Seconds between two log lines about the same failure."""
FULL_BYTES, LOW_BYTES = 2**20, 200 * 2**20
"""Free space below which a disk counts as full, and as nearly full."""
KEPT = "Listeners see that their answer is not stored yet; their pages keep it and send it again."


class StorageFailures:
    """Failed commits since the last successful one."""

    def __init__(self, engine: Engine):
        sqlite = engine.dialect.name == "sqlite"
        self._file = Path(str(engine.url.database)) if sqlite else None
        self._database = str(self._file) if self._file else engine.url.render_as_string()
        self._reason, self._since, self._tries, self._logged_at = "", 0.0, 0, 0.0

    def record_failure(self, error: Exception) -> None:
        """A commit failed. Mistakes of the caller are not failures of the database."""
        if not isinstance(error, DBAPIError) or isinstance(error, IntegrityError):
            return
        if not self._reason:
            self._since, self._tries, self._logged_at = time.time(), 0, 0.0
        self._reason, self._tries = self._explain(error), self._tries + 1
        if time.time() - self._logged_at >= REPEAT_S:
            self._logged_at = time.time()
            LOG.error("%s %s", _clock(self._logged_at), self.current())

    def record_success(self) -> None:
        """A commit succeeded."""
        if self._reason:
            self._reason = ""
            LOG.warning(
                "%s Answers are stored again; %d attempts had failed since %s.",
                _clock(time.time()),
                self._tries,
                _clock(self._since),
            )

    def current(self) -> str:
        """What prevents answers from being stored; empty if nothing does."""
        if not self._reason:
            return ""
        return (
            f"ANSWERS ARE NOT BEING STORED since {_clock(self._since)} ({self._tries} failed attempts): "
            f"{self._reason} {KEPT}"
        )

    def current_or_expected(self) -> str:
        """What prevents answers from being stored, or soon will; empty if nothing does."""
        free = self._free_bytes()
        if self._reason or free is None or free >= LOW_BYTES:
            return self.current()
        if free < FULL_BYTES:
            return f"ANSWERS CANNOT BE STORED: {self._disk_full()} {KEPT}"
        return (
            f"The disk of {self._database} is nearly full: {free / 2**20:.0f} MB are free. Free some space "
            "before answers can no longer be stored."
        )

    def _explain(self, error: DBAPIError) -> str:
        text = str(error.orig).strip()
        full = "disk is full" in text or "No space left" in text
        if not full and (free := self._free_bytes()) is not None:
            full = free < FULL_BYTES
        return self._disk_full() if full else f"the database {self._database} reports: {text}."

    def _disk_full(self) -> str:
        free = self._free_bytes()
        left = "" if free is None else f" ({free / 2**20:.1f} MB free)"
        return (
            f"the disk of {self._database} is full{left}. Free some space on it; the server need not be "
            "restarted."
        )

    def _free_bytes(self) -> int | None:
        """Free space on the disk of an SQLite file; None for another database."""
        try:
            return shutil.disk_usage(self._file.parent).free if self._file else None
        except OSError:
            return None


@contextmanager
def database_errors(where: str | Path) -> Iterator[None]:
    """Turn errors of the database at `where`, such as a full disk, into a UserError instead of a log line.
    For commands; the server continues and tries again."""
    LOG.disabled = True
    try:
        yield
    except IntegrityError:  # a programming error
        raise
    except (DBAPIError, sqlite3.Error) as error:
        text = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        raise UserError(
            f"The database {parse_url(where).render_as_string()} reports: {text}. Check that its disk has "
            "space and that it can be written to, then run the command again."
        ) from None
    finally:
        LOG.disabled = False


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
