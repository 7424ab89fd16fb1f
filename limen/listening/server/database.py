"""Opening the database of a study, in SQLite or PostgreSQL."""

import json
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError

from limen.core.errors import UserError, missing_package
from limen.listening.server.tables import POSTGRES_TRIGGERS, SCHEMA, SQLITE_TRIGGERS, meta, metadata


def open_engine(where: str | Path) -> Engine:
    """Open an SQLite file or a database URL (sqlite:///study.db, postgresql://user@host/database), and create
    missing tables."""
    url = parse_url(where)
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
                # two servers that start at the same time must not both create the tables
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(5104)")
            _create_tables(connection, url)
            for statement in SQLITE_TRIGGERS if url.get_backend_name() == "sqlite" else POSTGRES_TRIGGERS:
                connection.exec_driver_sql(statement)
    except DatabaseError as error:
        raise UserError(
            f"{url.render_as_string()} cannot be used as the database of a study: {error.orig}"
        ) from None
    return engine


def _create_tables(connection: Connection, url: URL) -> None:
    """Create the tables of an empty database; a UserError if existing tables have another version."""
    if not inspect(connection).has_table(meta.name):
        metadata.create_all(connection)
        connection.execute(insert(meta).values(key="schema", value=SCHEMA))
    elif (found := connection.scalar(select(meta.c.value).where(meta.c.key == "schema"))) != SCHEMA:
        raise UserError(
            f"{url.render_as_string()}: expected tables of version {SCHEMA}, got version {found or 1}. "
            "Open the database with the version of Limen that created it, or use another one."
        )


def _private_file(path: Path) -> None:
    """Create the file readable by its owner only, because it holds the secret and answers; SQLite creates its
    log files with the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise UserError(f"{path} cannot be opened as the database of a study: {error.strerror}.") from None


def parse_url(where: str | Path) -> URL:
    """The URL of a database that can hold a study."""
    if isinstance(where, Path):
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
        backend = url.get_backend_name()
    except ArgumentError:
        raise UserError(
            f"{where!r} is not a database URL. Expected sqlite:///study.db or "
            "postgresql://user:password@host/database."
        ) from None
    if backend not in ("sqlite", "postgresql") or (
        backend == "sqlite" and url.database in (None, "", ":memory:")
    ):
        raise UserError(
            f"{url.render_as_string()!r} cannot hold the answers of a study. Expected an SQLite file "
            "(sqlite:///study.db) or PostgreSQL (postgresql://user:password@host/database)."
        )
    if backend == "postgresql":
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise missing_package("A study in PostgreSQL", "psycopg", "listen") from None
        url = url.set(drivername="postgresql+psycopg")
    return url


def wipe_log(engine: Engine) -> None:
    """Truncate the write-ahead log of an SQLite file, which otherwise still holds what was deleted."""
    if engine.dialect.name != "sqlite":
        return
    connection = engine.raw_connection()  # outside any transaction
    try:
        # the deletion is committed; if the disk is full or slow, the log is truncated another time
        with suppress(sqlite3.Error):
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _sqlite_connection(connection: Any, _: Any) -> None:
    # the driver would begin transactions by itself, too late for BEGIN IMMEDIATE
    connection.isolation_level = None
    # FULL: a commit has reached the disk when it returns and survives a power cut. secure_delete: deleted
    # content is overwritten
    for pragma in (
        "busy_timeout=20000",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _sqlite_begin(connection: Connection) -> None:
    """A writer takes its lock at once, so that what it reads cannot change before it writes."""
    connection.exec_driver_sql(
        "BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN"
    )
