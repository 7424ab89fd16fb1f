"""What is known of a study's listeners and their answers: the only state there is. SQLite or PostgreSQL.

Answers are only ever added, at most one per listener and position, and `append` returns after the commit.
Everything else about a session is computed from them again.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, exists, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError

from limen.core.errors import UserError
from limen.listening.server.database import (
    COPIED,
    FINISHED,
    LOCK,
    SEEN,
    TAKEN,
    TRIED,
    Record,
    answers,
    events,
    listeners,
    meta,
    open_engine,
    personal,
    recruits,
    wipe_log,
)
from limen.listening.server.group_commit import Writer
from limen.listening.server.refusals import refuse
from limen.listening.server.seats import STATES, Choose, DoorClosed, Seats, Seed, Unknown
from limen.listening.study import Study

MOST_EVENTS = 100
"""Events kept of one listener."""
ERASED = "erased "
"""How the hash of a key begins that leads to nobody any more."""


class Store:
    def __init__(self, where: str | Path, patience_min: float = 60, begun_min: float = 10):
        """`where`: a file of SQLite or a database URL; a listener who has neither answered nor fetched a
        sound for `patience_min` minutes has dropped out, one without a place after `begun_min`."""
        self.engine = open_engine(where)
        self.patience_s, self.begun_s = 60 * patience_min, 60 * begun_min
        self._seats = Seats(self.patience_s, self.begun_s)
        self._closed = ""
        """When the study was closed, as read at the beginning of the transaction that the writer is in."""
        self._writer = Writer[Record](self.engine, self._open, self._append_all)
        insert_new = sqlite_insert if self.engine.dialect.name == "sqlite" else postgresql_insert
        self._insert_meta = insert_new(meta).on_conflict_do_nothing()
        self.secret = bytes.fromhex(self._writer.run(self._begin_meta))

    def close(self) -> None:
        """Waits for what is being written and lets go of the database."""
        self._writer.close()
        self.engine.dispose()

    def _open(self, connection: Connection) -> None:
        """Whoever writes waits here for other servers of the same study."""
        self._closed = connection.scalar(LOCK) or ""

    def _begin_meta(self, connection: Connection) -> str:
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
        """Records the fingerprint of the study; a changed study is refused once there are answers."""

        def job(connection: Connection) -> None:
            known = dict(connection.execute(select(meta.c.key, meta.c.value)).tuples().all())
            fresh = {"study": study.fingerprint(), "name": study.name}
            if known.get("study") == fresh["study"]:
                return
            if connection.scalar(select(exists().where(answers.c.id > 0))):
                raise UserError(
                    f"The database holds answers to {known['name']} (fingerprint {known['study'][:12]}), but "
                    f"the study file now has the fingerprint {fresh['study'][:12]}. Take back the change, or "
                    "give the changed study a database of its own."
                )
            connection.execute(delete(meta).where(meta.c.key.in_(list(fresh))))
            connection.execute(insert(meta), [{"key": k, "value": v} for k, v in fresh.items()])

        self._writer.run(job)

    def fingerprint(self) -> str | None:
        """Of the study as recorded before the first answer."""
        return self._meta("study")

    def close_study(self) -> None:
        """No new listeners and no answers from now on; closing again changes nothing."""

        def job(connection: Connection) -> None:
            self._closed = self._closed or str(time.time())
            connection.execute(update(meta).where(meta.c.key == "closed_at").values(value=self._closed))

        self._writer.run(job)

    def closed(self) -> bool:
        return bool(self._meta("closed_at"))

    def trouble(self) -> str:
        """What keeps answers from being stored, or soon will; empty if nothing does. Tried by storing
        something."""
        with suppress(DBAPIError):  # the writer takes note of it
            self._writer.run(lambda connection: connection.execute(TRIED, {"now": str(time.time())}))
        return self._writer.trouble.ahead()

    def _meta(self, key: str) -> str | None:
        with self.engine.connect() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.key == key))

    # ---- listeners

    def find(self, key_hash: str) -> Row[Any] | None:
        """The listener with this key."""
        with self.engine.connect() as connection:
            return connection.execute(select(listeners).where(listeners.c.key_hash == key_hash)).first()

    def returns(self, returning_hash: str) -> bool:
        """Whether the listener with this hash has begun before."""
        with self.engine.connect() as connection:
            return bool(
                connection.scalar(select(exists().where(listeners.c.returning_hash == returning_hash)))
            )

    def join(
        self,
        study: Study,
        key_hash: str,
        returning_hash: str | None,
        parameters: Mapping[str, str],
        choose: Choose,
        seed: Seed,
    ) -> Row[Any]:
        """The listener who returns, or a new one in the group that `choose` names given how many have a place
        in it or have begun."""

        def job(connection: Connection) -> Row[Any]:
            if returning_hash and (
                old := connection.execute(
                    select(listeners).where(listeners.c.returning_hash == returning_hash)
                ).first()
            ):
                return self._numbered(connection, old, study, choose, seed)
            self._open_door()
            values = {
                "key_hash": key_hash,
                "returning_hash": returning_hash,
                "started_at": time.time(),
                "seen_at": time.time(),
                **self._seats.admit(connection, study, choose, seed),
            }
            new = connection.execute(insert(listeners).values(values).returning(*listeners.c)).one()
            if parameters:
                connection.execute(insert(recruits).values(listener=new.id, data=dict(parameters)))
            return new

        return self._writer.run(job)

    def readmit(self, study: Study, listener: int, choose: Choose, seed: Seed) -> Row[Any]:
        """The listener, whose number went to another, with a new one."""

        def job(connection: Connection) -> Row[Any]:
            old = connection.execute(select(listeners).where(listeners.c.id == listener)).one()
            return self._numbered(connection, old, study, choose, seed)

        return self._writer.run(job)

    def _numbered(
        self, connection: Connection, old: Row[Any], study: Study, choose: Choose, seed: Seed
    ) -> Row[Any]:
        """A known listener; one whose number went to another gets a new one."""
        if old.number is not None:
            return old
        self._open_door()
        values = {"seen_at": time.time(), **self._seats.admit(connection, study, choose, seed)}
        return connection.execute(
            update(listeners).where(listeners.c.id == old.id).values(values).returning(*listeners.c)
        ).one()

    def _open_door(self) -> None:
        if self._closed:
            raise DoorClosed("This study is closed.")

    def seen(self, listener: int) -> None:
        """Notes that the listener takes part; does not wait for the commit."""
        self._writer.start(
            lambda connection: connection.execute(SEEN, {"who": [listener], "now": time.time()})
        )

    def finish(self, listener: int) -> None:
        self._writer.run(
            lambda connection: connection.execute(FINISHED, {"who": [listener], "now": time.time()})
        )

    def mark_simulated(self, listener: int) -> None:
        """Notes that the listener was made up."""
        self._writer.run(
            lambda connection: connection.execute(
                update(listeners).where(listeners.c.id == listener).values(simulated=True)
            )
        )

    def parameters(self, listener: int) -> dict[str, str]:
        """What the recruitment site said of a listener; empty once erased."""
        with self.engine.connect() as connection:
            return connection.scalar(select(recruits.c.data).where(recruits.c.listener == listener)) or {}

    def erase(self, listener: int) -> None:
        """Deletes what is personal: answers about the person, recruitment parameters and events. Other
        answers stay.

        The hashes that tell the listener when they return go too: nothing leads from the person to the
        answers any more, and a page that is still open, at whatever server, can add none.
        """

        def job(connection: Connection) -> None:
            unknown = {"returning_hash": None, "key_hash": f"{ERASED}{secrets.token_hex(16)}"}
            if not connection.execute(
                update(listeners).where(listeners.c.id == listener).values(unknown)
            ).rowcount:
                raise UserError(f"There is no listener {listener}.")
            for table in (personal, recruits, events):
                connection.execute(delete(table).where(table.c.listener == listener))

        self._writer.run(job)
        wipe_log(self.engine)

    def decline(self, listener: int, position: int) -> bool:
        """Forgets a listener who does not agree on the screen at this position; False if they agreed
        before."""
        gone = self._writer.run(lambda connection: refuse(connection, listener, position))
        wipe_log(self.engine)
        return gone

    # ---- answers

    def append(self, record: Record) -> bool:
        """Stores an answer and returns after the commit: True, or False if there already is one of this
        listener and position."""
        return self.start_append(record).result()

    def start_append(self, record: Record) -> "Future[bool]":
        """The same without waiting."""
        return self._writer.add(record)

    def _append_all(self, connection: Connection, records: Sequence[Record]) -> list[bool]:
        """Stores those that are new, the first of each listener and position, and says which."""
        if self._closed:
            raise DoorClosed("This study is closed: no answers are taken any more.")
        places = [(r.listener, r.position) for r in records]
        taken = set(connection.execute(TAKEN, {"places": list(set(places))}).tuples())
        new = [place not in taken and places.index(place) == k for k, place in enumerate(places)]
        fresh, now = [r for r, is_new in zip(records, new, strict=True) if is_new], time.time()
        rows = [
            {name: getattr(r, name) for name in COPIED}
            | {"received_at": now}
            | ({"answer": {}} if r.personal else {})
            for r in fresh
        ]
        about = [
            {"listener": r.listener, "position": r.position, "data": r.answer} for r in fresh if r.personal
        ]
        ended = [r.listener for r in fresh if r.last]
        self._seats.claim(connection, fresh, now)
        if fresh:
            connection.execute(insert(answers), rows)
            connection.execute(SEEN, {"who": [r.listener for r in fresh], "now": now})
        if about:
            connection.execute(insert(personal), about)
        if ended:
            connection.execute(FINISHED, {"who": ended, "now": now})
        return new

    def history(self, listener: int) -> list[Row[Any]]:
        """Position, answer and facts of each answer, by position."""
        columns = (answers.c.position, answers.c.answer, answers.c.facts)
        with self.engine.connect() as connection:
            return list(
                connection.execute(
                    select(*columns).where(answers.c.listener == listener).order_by(answers.c.position)
                )
            )

    def event(self, listener: int, key_hash: str, position: int, kind: str) -> bool:
        """Notes something that happened on the page of a listener. False, and nothing is kept, after the last
        answer and beyond MOST_EVENTS."""

        def job(connection: Connection) -> bool:
            if self._closed:
                raise DoorClosed("This study is closed: nothing is noted any more.")
            here = select(listeners.c.finished_at).where(
                listeners.c.id == listener, listeners.c.key_hash == key_hash
            )
            if (found := connection.execute(here).first()) is None:
                raise Unknown
            so_far = connection.scalar(select(func.count()).where(events.c.listener == listener)) or 0
            room = found.finished_at is None and so_far < MOST_EVENTS
            if room:
                connection.execute(
                    insert(events).values(listener=listener, at=time.time(), position=position, kind=kind)
                )
            return room

        return self._writer.run(job)

    # ---- what is read out

    def answers(self) -> list[dict[str, Any]]:
        """All answers, in the order in which they were stored."""
        return self._rows(select(answers).order_by(answers.c.id))

    def listeners(self) -> list[dict[str, Any]]:
        """All listeners, in the order in which they came; `group` is their group, `erased` says whether what
        is personal was erased."""
        columns = [
            c.label(c.name.rstrip("_")) for c in listeners.c if c.name not in ("key_hash", "returning_hash")
        ]
        columns.append(listeners.c.key_hash.startswith(ERASED).label("erased"))
        return self._rows(select(*columns).order_by(listeners.c.id))

    def personal(self) -> list[dict[str, Any]]:
        return self._rows(select(personal).order_by(personal.c.listener, personal.c.position))

    def recruits(self) -> list[dict[str, Any]]:
        return self._rows(select(recruits).order_by(recruits.c.listener))

    def events(self) -> list[dict[str, Any]]:
        return self._rows(select(events).order_by(events.c.id))

    def progress(self) -> dict[str, Any]:
        """Listeners by group and state; how many declined; answers; whether the study is closed."""
        with self.engine.connect() as connection:
            states = [func.count().filter(condition) for condition in self._seats.states()]
            query = (
                select(listeners.c.group_, *states).group_by(listeners.c.group_).order_by(listeners.c.group_)
            )
            groups = {
                name: dict(zip(STATES, numbers, strict=True)) for name, *numbers in connection.execute(query)
            }
            given, last = connection.execute(
                select(func.count(), func.max(answers.c.received_at)).select_from(answers)
            ).one()
        sums = {name: sum(group[name] for group in groups.values()) for name in STATES}
        declined = int(self._meta("declined") or 0)
        return {
            **sums,
            "declined": declined,
            "groups": groups,
            "answers": given,
            "last_answer_at": last,
            "closed": self.closed(),
        }

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]
