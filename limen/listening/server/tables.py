"""The tables of a study's database, and the statements that every answer runs. Times are seconds since 1970,
UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    false,
    select,
    tuple_,
    update,
)

metadata = MetaData()
SCHEMA = "2"
"""Version of the tables, raised with every change of a table: a database of another version is refused."""
_id = BigInteger().with_variant(Integer, "sqlite")  # SQLite auto-increments only INTEGER columns

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)
"""schema: version of the tables. study: fingerprint, recorded before the first listener. name, secret,
closed_at. declined: number of refusals. tried_at: time of the last write test."""

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
    sqlite_autoincrement=True,  # the id of a deleted row is never used again
)
"""number: null after it was given to another listener. placed_at: when the listener took a place, having
heard a sound. simulated: set by `limen listen simulate` only, never by a request."""

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

# statements that every answer runs, built once: building them takes longer than running them
LOCK = select(meta.c.value).where(meta.c.key == "closed_at").with_for_update()
MARK_SEEN = (
    update(listeners)
    .where(listeners.c.id.in_(bindparam("ids", expanding=True)))
    .values(seen_at=bindparam("now"))
)
MARK_FINISHED = MARK_SEEN.where(listeners.c.finished_at.is_(None)).values(finished_at=bindparam("now"))
ENROLMENT_OF = select(
    listeners.c.id, listeners.c.key_hash, listeners.c.group_, listeners.c.number, listeners.c.placed_at
).where(listeners.c.id.in_(bindparam("ids", expanding=True)))
WRITE_TEST = update(meta).where(meta.c.key == "tried_at").values(value=bindparam("now"))
ANSWERED = select(answers.c.listener, answers.c.position).where(
    tuple_(answers.c.listener, answers.c.position).in_(bindparam("positions", expanding=True))
)
RECORD_COLUMNS = [c.name for c in answers.c if c.name not in ("id", "received_at")]


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
    """Store the answer in the table that can be erased."""
    key_hash: str | None = None
    """Key hash of the listener when their screens were computed; null: not checked."""
    enrolled_as: tuple[str, int] | None = None
    """Group and number that the screens were computed from. Given with a first answer, because until then the
    number may be given to another listener."""
    places: int | None = None
    """The listener takes one of this many places unless they have one already; null: no place is taken."""
    last: bool = False
    """The listener's last answer: they have finished."""


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
