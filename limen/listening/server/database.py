"""The tables of a study's database, and how SQLite and PostgreSQL are opened. Times are seconds since 1970,
UTC."""

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_engine,
    event,
    false,
    insert,
    inspect,
    make_url,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import ArgumentError, DatabaseError

from limen.core.errors import UserError, missing_package

metadata = MetaData()
SCHEMA = "2"
"""Version of the tables: raised with every change of a table, since a database of another version is
refused."""
_id = BigInteger().with_variant(Integer, "sqlite")  # only an INTEGER counts up by itself in SQLite

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)
"""schema: version of the tables. study: fingerprint, recorded before the first listener. name, secret,
closed_at. declined: number of refusals. tried_at: when it was last tried to store anything."""

listeners = Table(
    "listeners",
    metadata,
    Column("id", _id, primary_key=True),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("returning_hash", String(64), unique=True),
    Column("group_", String(200), nullable=False),
    Column("number", Integer),
    Column("seed", BigInteger, nullable=False),
    Column("started_at", Float(53), nullable=False),
    Column("placed_at", Float(53)),
    Column("finished_at", Float(53)),
    Column("seen_at", Float(53), nullable=False),
    Column("simulated", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("group_", "number"),
    sqlite_autoincrement=True,  # the id of a row that was deleted never comes again
)
"""number: none once it was given to another. placed_at: when the listener took a place, having heard
something. simulated: written by `limen listen simulate` alone, and by nothing that comes over the web."""

answers = Table(
    "answers",
    metadata,
    Column("id", _id, primary_key=True),
    Column("listener", _id, ForeignKey("listeners.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("attempt", String(64), nullable=False),
    Column("step", Integer, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("answer", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("truth", JSON, nullable=False),
    Column("correct", Boolean),
    Column("playback", JSON, nullable=False),
    Column("response_ms", Float(53)),
    Column("received_at", Float(53), nullable=False),
    UniqueConstraint("listener", "position"),
)
"""Append-only: triggers refuse to change or delete a row."""

personal = Table(
    "personal",
    metadata,
    Column("listener", _id, ForeignKey("listeners.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("data", JSON, nullable=False),
)
"""Answers about the listener's person; can be erased."""

recruits = Table(
    "recruits",
    metadata,
    Column("listener", _id, ForeignKey("listeners.id"), primary_key=True, autoincrement=False),
    Column("data", JSON, nullable=False),
)
"""Parameters of the recruitment site; can be erased."""

events = Table(
    "events",
    metadata,
    Column("id", _id, primary_key=True),
    Column("listener", _id, ForeignKey("listeners.id"), nullable=False, index=True),
    Column("at", Float(53), nullable=False),
    Column("position", Integer, nullable=False),
    Column("kind", String(64), nullable=False),
)
"""What happened on the page of a listener while the screen at this position was shown."""

# statements of every answer, built once: building them takes longer than running them
LOCK = select(meta.c.value).where(meta.c.key == "closed_at").with_for_update()
SEEN = (
    update(listeners)
    .where(listeners.c.id.in_(bindparam("who", expanding=True)))
    .values(seen_at=bindparam("now"))
)
STANDING = select(
    listeners.c.id, listeners.c.key_hash, listeners.c.group_, listeners.c.number, listeners.c.placed_at
).where(listeners.c.id.in_(bindparam("who", expanding=True)))
FINISHED = SEEN.where(listeners.c.finished_at.is_(None)).values(finished_at=bindparam("now"))
TRIED = update(meta).where(meta.c.key == "tried_at").values(value=bindparam("now"))
TAKEN = select(answers.c.listener, answers.c.position).where(
    tuple_(answers.c.listener, answers.c.position).in_(bindparam("places", expanding=True))
)
COPIED = [c.name for c in answers.c if c.name not in ("id", "received_at")]


@dataclass(frozen=True)
class Record:
    """An answer as it is stored."""

    listener: int
    position: int
    attempt: str
    step: int
    kind: str
    role: str
    answer: Mapping[str, Any]
    facts: Mapping[str, Any]
    truth: Mapping[str, Any]
    correct: bool | None
    playback: list[dict[str, Any]]
    response_ms: float | None
    personal: bool = False
    """The answer goes to the table that can be erased."""
    key_hash: str | None = None
    """What the database knew the listener by when their screens were made; null: not checked."""
    was: tuple[str, int] | None = None
    """Group and number that the screens followed from. Given with a first answer: until then the number may
    go to another."""
    places: int | None = None
    """The listener takes one of so many places, if they have none yet; null: no place is taken."""
    last: bool = False
    """It is the listener's last: they have finished."""


REFUSED = "answers are append-only"
SQLITE_TRIGGERS = [
    f"CREATE TRIGGER IF NOT EXISTS answers_no_{verb} BEFORE {verb.upper()} ON answers BEGIN SELECT "
    f"RAISE(ABORT, '{REFUSED}'); END"
    for verb in ("update", "delete")
]
POSTGRES_TRIGGERS = [
    f"CREATE OR REPLACE FUNCTION answers_refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{REFUSED}'; "
    "END $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE TRIGGER answers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON answers "
    "FOR EACH STATEMENT EXECUTE FUNCTION answers_refuse()",
]


def open_engine(where: str | Path) -> Engine:
    """An engine for a file of SQLite or a URL (sqlite:///study.db, postgresql://user@host/database); its
    tables are made if missing."""
    url = address(where)
    if url.get_backend_name() == "sqlite":
        _private_file(Path(str(url.database)))
        engine = create_engine(url, json_serializer=_json, pool_size=20, max_overflow=20)
        event.listen(engine, "connect", _sqlite_connection)
        event.listen(engine, "begin", _sqlite_begin)
    else:
        engine = create_engine(url, json_serializer=_json, pool_size=10, max_overflow=20, pool_pre_ping=True)
    try:
        with engine.connect().execution_options(write=True) as connection, connection.begin():
            if url.get_backend_name() == "postgresql":
                connection.exec_driver_sql(
                    "SELECT pg_advisory_xact_lock(5104)"
                )  # two servers that start at once make the tables once
            _make_tables(connection, url)
            for statement in SQLITE_TRIGGERS if url.get_backend_name() == "sqlite" else POSTGRES_TRIGGERS:
                connection.exec_driver_sql(statement)
    except DatabaseError as error:
        raise UserError(
            f"{url.render_as_string()} cannot be used as the database of a study: {error.orig}"
        ) from None
    return engine


def _make_tables(connection: Connection, url: URL) -> None:
    """Makes the tables of an empty database; a UserError if those that are there are of another version."""
    if not inspect(connection).has_table(meta.name):
        metadata.create_all(connection)
        connection.execute(insert(meta).values(key="schema", value=SCHEMA))
    elif (found := connection.scalar(select(meta.c.value).where(meta.c.key == "schema"))) != SCHEMA:
        raise UserError(
            f"{url.render_as_string()}: got a database whose tables are of version {found or 1}, expected "
            f"version {SCHEMA}. Open it with the version of Limen that made it, or name another database."
        )


def _private_file(path: Path) -> None:
    """It holds the secret and what listeners said: nobody else may read it, nor the log that SQLite makes
    beside it with the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise UserError(f"{path} cannot be opened as the database of a study: {error.strerror}.") from None


def address(where: str | Path) -> URL:
    """The URL of a database that a study can be kept in."""
    if isinstance(where, Path):
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
        backend = url.get_backend_name()
    except ArgumentError:
        raise UserError(
            f"{where!r} is no database URL. Expected sqlite:///study.db or "
            "postgresql://user:password@host/database."
        ) from None
    if backend not in ("sqlite", "postgresql") or (
        backend == "sqlite" and url.database in (None, "", ":memory:")
    ):
        raise UserError(
            f"{url.render_as_string()!r}: answers are kept in a file of SQLite (sqlite:///study.db) or in "
            "PostgreSQL."
        )
    if backend == "postgresql":
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise missing_package("A study in PostgreSQL", "psycopg", "listen") from None
        url = url.set(drivername="postgresql+psycopg")
    return url


def wipe_log(engine: Engine) -> None:
    """Empties the log beside a file of SQLite, which holds what was deleted until it is written anew."""
    if engine.dialect.name != "sqlite":
        return
    connection = engine.raw_connection()  # not within a transaction
    try:
        with suppress(
            sqlite3.Error
        ):  # the deletion stands; a disk that is full or slow leaves this for the next time
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _sqlite_connection(connection: Any, _: Any) -> None:
    connection.isolation_level = (
        None  # the driver would begin transactions by itself, and too late for BEGIN IMMEDIATE
    )
    # FULL: a commit is on the disk when it returns, also after a power cut. secure_delete: what is deleted is
    # overwritten
    for pragma in (
        "busy_timeout=20000",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _sqlite_begin(connection: Connection) -> None:
    """A writer takes its lock at once: what it reads cannot change before it writes."""
    connection.exec_driver_sql(
        "BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN"
    )
