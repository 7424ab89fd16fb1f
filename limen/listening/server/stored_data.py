"""Reading the database of a study: listeners, answers, events, progress."""

from typing import Any

from sqlalchemy import Engine, Row, Select, exists, func, select

from limen.listening.server.enrolment import STATES, Enrolment
from limen.listening.server.personal_data import ERASED
from limen.listening.server.tables import answers, events, listeners, meta, personal, recruits


class StoredData:
    """The queries of a study's database; all of them return what has been committed."""

    def __init__(self, engine: Engine, enrolment: Enrolment):
        self.engine, self._enrolment = engine, enrolment

    def fingerprint(self) -> str | None:
        """Fingerprint of the study, recorded before the first answer."""
        return self._meta("study")

    def closed(self) -> bool:
        return bool(self._meta("closed_at"))

    def find(self, key_hash: str) -> Row[Any] | None:
        """The listener with this key."""
        with self.engine.connect() as connection:
            return connection.execute(select(listeners).where(listeners.c.key_hash == key_hash)).first()

    def has_returning(self, returning_hash: str) -> bool:
        """Whether the listener with this hash has begun before."""
        with self.engine.connect() as connection:
            return bool(
                connection.scalar(select(exists().where(listeners.c.returning_hash == returning_hash)))
            )

    def parameters(self, listener: int) -> dict[str, str]:
        """The recruitment parameters of a listener; empty once erased."""
        with self.engine.connect() as connection:
            return connection.scalar(select(recruits.c.data).where(recruits.c.listener == listener)) or {}

    def history(self, listener: int) -> list[Row[Any]]:
        """Position, answer and facts of each answer of a listener, by position."""
        columns = (answers.c.position, answers.c.answer, answers.c.facts)
        with self.engine.connect() as connection:
            return list(
                connection.execute(
                    select(*columns).where(answers.c.listener == listener).order_by(answers.c.position)
                )
            )

    def answers(self) -> list[dict[str, Any]]:
        """All answers, in the order in which they were stored."""
        return self._rows(select(answers).order_by(answers.c.id))

    def listeners(self) -> list[dict[str, Any]]:
        """All listeners, in the order in which they began. `erased`: their personal data were erased."""
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
        """Listeners by group and state, refusals, answers, and whether the study is closed."""
        with self.engine.connect() as connection:
            states = [func.count().filter(condition) for condition in self._enrolment.states()]
            query = (
                select(listeners.c.group_, *states).group_by(listeners.c.group_).order_by(listeners.c.group_)
            )
            groups = {
                name: dict(zip(STATES, numbers, strict=True)) for name, *numbers in connection.execute(query)
            }
            count, last = connection.execute(
                select(func.count(), func.max(answers.c.received_at)).select_from(answers)
            ).one()
        sums = {name: sum(group[name] for group in groups.values()) for name in STATES}
        declined = int(self._meta("declined") or 0)
        return {
            **sums,
            "declined": declined,
            "groups": groups,
            "answers": count,
            "last_answer_at": last,
            "closed": self.closed(),
        }

    def _meta(self, key: str) -> str | None:
        with self.engine.connect() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.key == key))

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]
