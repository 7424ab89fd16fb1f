"""The store of a study's listeners and answers, in SQLite or PostgreSQL: the only state of the server.

Answers are only ever added, at most one per listener and position, and `append` returns after the commit.
Everything else about a session is computed from them.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError

from limen.core.errors import UserError
from limen.listening.server import personal_data
from limen.listening.server.database import open_engine, wipe_log
from limen.listening.server.enrolment import ChooseGroup, Enrolment, Seed, StudyClosed, UnknownListener
from limen.listening.server.group_commit import GroupCommitWriter
from limen.listening.server.stored_data import StoredData
from limen.listening.server.tables import (
    ANSWERED,
    LOCK,
    MARK_FINISHED,
    MARK_SEEN,
    RECORD_COLUMNS,
    WRITE_TEST,
    Record,
    answers,
    events,
    listeners,
    meta,
    personal,
    recruits,
)
from limen.listening.study import Study

MAX_EVENTS = 100
"""Events kept of one listener."""


class Store(StoredData):
    def __init__(self, where: str | Path, idle_timeout_min: float = 60, start_timeout_min: float = 10):
        """`where`: an SQLite file or a database URL. A listener with a place who has neither answered nor
        fetched a sound for `idle_timeout_min` minutes has dropped out; one without a place, after
        `start_timeout_min`."""
        self.idle_timeout_s, self.start_timeout_s = 60 * idle_timeout_min, 60 * start_timeout_min
        super().__init__(open_engine(where), Enrolment(self.idle_timeout_s, self.start_timeout_s))
        self._closed_at = ""
        """When the study was closed, as read at the start of the writer's current transaction."""
        self._writer = GroupCommitWriter[Record](self.engine, self._lock_study, self._append_all)
        insert_new = sqlite_insert if self.engine.dialect.name == "sqlite" else postgresql_insert
        self._insert_meta = insert_new(meta).on_conflict_do_nothing()
        self.secret = bytes.fromhex(self._writer.run(self._create_secret))

    def close(self) -> None:
        """Wait for pending writes and close the database."""
        self._writer.close()
        self.engine.dispose()

    def _lock_study(self, connection: Connection) -> None:
        """Wait for writers of other servers of the same study."""
        self._closed_at = connection.scalar(LOCK) or ""

    def _create_secret(self, connection: Connection) -> str:
        connection.execute(
            self._insert_meta,
            [
                {"key": "secret", "value": secrets.token_hex(32)},
                {"key": "closed_at", "value": ""},
                {"key": "tried_at", "value": ""},
            ],
        )
        return str(connection.scalar(select(meta.c.value).where(meta.c.key == "secret")))

    # ---- the study

    def bind(self, study: Study) -> None:
        """Record the fingerprint of the study; once there are answers, a changed study is refused."""

        def job(connection: Connection) -> None:
            recorded = dict(connection.execute(select(meta.c.key, meta.c.value)).tuples().all())
            current = {"study": study.fingerprint(), "name": study.name}
            if recorded.get("study") == current["study"]:
                return
            if connection.scalar(select(exists().where(answers.c.id > 0))):
                raise UserError(
                    f"The database holds answers to {recorded['name']} with the fingerprint "
                    f"{recorded['study'][:12]}, but the study file now has the fingerprint "
                    f"{current['study'][:12]}. Undo the change, or give the changed study another database."
                )
            connection.execute(delete(meta).where(meta.c.key.in_(list(current))))
            connection.execute(insert(meta), [{"key": k, "value": v} for k, v in current.items()])

        self._writer.run(job)

    def close_study(self) -> None:
        """Accept no more listeners and answers; closing again changes nothing."""

        def job(connection: Connection) -> None:
            self._closed_at = self._closed_at or str(time.time())
            connection.execute(update(meta).where(meta.c.key == "closed_at").values(value=self._closed_at))

        self._writer.run(job)

    def storage_problem(self) -> str:
        """What prevents answers from being stored, or soon will; empty if nothing does. Tests it by writing
        to the database."""
        with suppress(DBAPIError):  # the writer records the failure
            self._writer.run(lambda connection: connection.execute(WRITE_TEST, {"now": str(time.time())}))
        return self._writer.failures.current_or_expected()

    # ---- listeners

    def join(
        self,
        study: Study,
        key_hash: str,
        returning_hash: str | None,
        parameters: Mapping[str, str],
        choose: ChooseGroup,
        seed: Seed,
    ) -> Row[Any]:
        """The returning listener, or a new one in the group that `choose` gives for the number of listeners
        who have a place in each group or are starting."""

        def job(connection: Connection) -> Row[Any]:
            if returning_hash and (
                known := connection.execute(
                    select(listeners).where(listeners.c.returning_hash == returning_hash)
                ).first()
            ):
                return self._with_number(connection, known, study, choose, seed)
            self._refuse_if_closed("This study is closed.")
            values = {
                "key_hash": key_hash,
                "returning_hash": returning_hash,
                "started_at": time.time(),
                "seen_at": time.time(),
                **self._enrolment.admit(connection, study, choose, seed),
            }
            new = connection.execute(insert(listeners).values(values).returning(*listeners.c)).one()
            if parameters:
                connection.execute(insert(recruits).values(listener=new.id, data=dict(parameters)))
            return new

        return self._writer.run(job)

    def readmit(self, study: Study, listener: int, choose: ChooseGroup, seed: Seed) -> Row[Any]:
        """Give a new number to a listener whose number was given to another."""

        def job(connection: Connection) -> Row[Any]:
            known = connection.execute(select(listeners).where(listeners.c.id == listener)).one()
            return self._with_number(connection, known, study, choose, seed)

        return self._writer.run(job)

    def _with_number(
        self, connection: Connection, known: Row[Any], study: Study, choose: ChooseGroup, seed: Seed
    ) -> Row[Any]:
        """A known listener, with a new number if theirs was given to another."""
        if known.number is not None:
            return known
        self._refuse_if_closed("This study is closed.")
        values = {"seen_at": time.time(), **self._enrolment.admit(connection, study, choose, seed)}
        return connection.execute(
            update(listeners).where(listeners.c.id == known.id).values(values).returning(*listeners.c)
        ).one()

    def _refuse_if_closed(self, message: str) -> None:
        if self._closed_at:
            raise StudyClosed(message)

    def mark_seen(self, listener: int) -> None:
        """Note that the listener is taking part, without waiting for the commit."""
        self._writer.submit(
            lambda connection: connection.execute(MARK_SEEN, {"ids": [listener], "now": time.time()})
        )

    def mark_finished(self, listener: int) -> None:
        self._writer.run(
            lambda connection: connection.execute(MARK_FINISHED, {"ids": [listener], "now": time.time()})
        )

    def mark_simulated(self, listener: int) -> None:
        self._writer.run(
            lambda connection: connection.execute(
                update(listeners).where(listeners.c.id == listener).values(simulated=True)
            )
        )

    def erase(self, listener: int) -> None:
        """Delete the personal data of a listener; other answers stay."""
        self._writer.run(lambda connection: personal_data.erase(connection, listener))
        wipe_log(self.engine)

    def decline(self, listener: int, position: int) -> bool:
        """Delete a listener who does not agree at the screen of this position; False if they agreed
        before."""
        deleted = self._writer.run(
            lambda connection: personal_data.delete_declined(connection, listener, position)
        )
        wipe_log(self.engine)
        return deleted

    # ---- answers and events

    def append(self, record: Record) -> bool:
        """Store an answer and return after the commit: True, or False if this listener and position already
        have one."""
        return self.submit(record).result()

    def submit(self, record: Record) -> "Future[bool]":
        """Store an answer without waiting for the commit."""
        return self._writer.submit_record(record)

    def _append_all(self, connection: Connection, records: Sequence[Record]) -> list[bool]:
        """Store those records that are new, the first of each listener and position; return which were
        new."""
        self._refuse_if_closed("This study is closed: it accepts no more answers.")
        positions = [(r.listener, r.position) for r in records]
        answered = set(connection.execute(ANSWERED, {"positions": list(set(positions))}).tuples())
        is_new = [p not in answered and positions.index(p) == k for k, p in enumerate(positions)]
        new, now = [r for r, flag in zip(records, is_new, strict=True) if flag], time.time()
        self._enrolment.take_places(connection, new, now)
        if new:
            connection.execute(insert(answers), [_answer_row(r, now) for r in new])
            connection.execute(MARK_SEEN, {"ids": [r.listener for r in new], "now": now})
        if about := [r for r in new if r.personal]:
            rows = [{"listener": r.listener, "position": r.position, "data": r.answer} for r in about]
            connection.execute(insert(personal), rows)
        if finished := [r.listener for r in new if r.last]:
            connection.execute(MARK_FINISHED, {"ids": finished, "now": now})
        return is_new

    def event(self, listener: int, key_hash: str, position: int, kind: str) -> bool:
        """Store something that happened on the page of a listener. False, and nothing is stored, after the
        last answer and beyond MAX_EVENTS."""

        def job(connection: Connection) -> bool:
            self._refuse_if_closed("This study is closed: it accepts no more events.")
            query = select(listeners.c.finished_at).where(
                listeners.c.id == listener, listeners.c.key_hash == key_hash
            )
            if (known := connection.execute(query).first()) is None:
                raise UnknownListener
            so_far = connection.scalar(select(func.count()).where(events.c.listener == listener)) or 0
            stored = known.finished_at is None and so_far < MAX_EVENTS
            if stored:
                connection.execute(
                    insert(events).values(listener=listener, at=time.time(), position=position, kind=kind)
                )
            return stored

        return self._writer.run(job)


def _answer_row(record: Record, received_at: float) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in RECORD_COLUMNS} | {"received_at": received_at}
    return row | {"answer": {}} if record.personal else row
