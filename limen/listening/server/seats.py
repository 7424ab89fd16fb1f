"""Who has a place in a study, and who has only begun.

A listener has a number in their group from the beginning, since their screens follow from it, but takes one
of the study's places only with the first answer that proves that they have heard something. Pages that are
opened and left take none, and the number of a listener who left before the first answer goes to the next who
comes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, update

from limen.core.errors import UserError
from limen.listening.server.database import STANDING, Record, answers, listeners
from limen.listening.study import Study

FULL = "This study has all the listeners it needs. Thank you for coming."
Choose = Callable[[Study, Mapping[str, int]], str]
"""Group that a new listener joins, given how many each has."""
Seed = Callable[[str, int], int]
STATES = ("finished", "active", "dropped", "begun", "left")
"""What a listener is: at the end; at it; has a place but was idle for long; begins and has no place yet; left
before they had one. Idle is who neither answers nor fetches a sound: a page that only asks for its screen,
however often, holds nothing."""


class Unknown(UserError):
    """No listener has this key, or has it any more."""

    def __init__(self) -> None:
        super().__init__("This browser is not known to the study. Open the study's address to begin.")


class DoorClosed(UserError):
    """The study takes no new listeners, or no answers any more."""


class Released(UserError):
    """The listener came back after their number went to another, before any answer of theirs."""


class Seats:
    def __init__(self, patience_s: float, begun_s: float):
        """A place is free again when its listener was idle for `patience_s`, the number of one without
        answers after `begun_s`."""
        self.patience_s, self.begun_s = patience_s, begun_s

    def placed(self) -> ColumnElement[bool]:
        """Condition: has a place. Who finished keeps it, who dropped out leaves it to another."""
        here = listeners.c.seen_at > time.time() - self.patience_s
        return or_(listeners.c.finished_at.is_not(None), and_(listeners.c.placed_at.is_not(None), here))

    def begun(self) -> ColumnElement[bool]:
        """Condition: has no place yet, and was here just now."""
        here = listeners.c.seen_at > time.time() - self.begun_s
        return and_(listeners.c.finished_at.is_(None), listeners.c.placed_at.is_(None), here)

    def states(self) -> list[ColumnElement[bool]]:
        """A condition for each of STATES."""
        finished, has, begun = (
            listeners.c.finished_at.is_not(None),
            listeners.c.placed_at.is_not(None),
            self.begun(),
        )
        return [
            finished,
            and_(~finished, self.placed()),
            and_(has, ~self.placed()),
            begun,
            and_(~finished, ~has, ~begun),
        ]

    def admit(self, connection: Connection, study: Study, choose: Choose, seed: Seed) -> dict[str, Any]:
        """Group, number and seed of a listener who comes now; DoorClosed if all places are taken."""
        if self._taken(connection) >= study.listeners:
            raise DoorClosed(FULL)
        counts = _by_group(connection, or_(self.placed(), self.begun()))
        group = choose(study, {cell: counts.get(cell, 0) for cell in study.cells})
        number = self._number(connection, group)
        return {"group_": group, "number": number, "seed": seed(group, number)}

    def _taken(self, connection: Connection) -> int:
        return sum(_by_group(connection, self.placed()).values())

    def _number(self, connection: Connection, group: str) -> int:
        """The lowest in the group that nobody has, or that a listener without an answer has left."""
        silent = ~exists().where(answers.c.listener == listeners.c.id)
        here = listeners.c.seen_at > time.time() - self.begun_s
        mine = and_(listeners.c.group_ == group, listeners.c.number.is_not(None))
        kept = or_(here, listeners.c.finished_at.is_not(None), ~silent)
        held = set(connection.scalars(select(listeners.c.number).where(mine, kept)))
        number = next(n for n in count() if n not in held)
        connection.execute(update(listeners).where(mine, listeners.c.number == number).values(number=None))
        return number

    def claim(self, connection: Connection, records: Sequence[Record], now: float) -> None:
        """Checks whose answers these are, and takes the places that they earn. Sessions in memory may be
        older than the database: another process may have erased a listener, another window declined."""
        known = {row.id: row for row in connection.execute(STANDING, {"who": [r.listener for r in records]})}
        for r in records:
            now_at = known.get(r.listener)
            if r.key_hash is not None and (now_at is None or now_at.key_hash != r.key_hash):
                raise Unknown
            if r.was is not None and (now_at is None or r.was != (now_at.group_, now_at.number)):
                raise Released(
                    "You were away for long, and the study has gone on without you. This is where it begins "
                    "again."
                )
        seeking = {
            r.listener: r.places
            for r in records
            if r.places is not None and known[r.listener].placed_at is None
        }
        if seeking and self._taken(connection) + len(seeking) > min(seeking.values()):
            # alone in a transaction, as the writer tries again, this is one listener too many
            raise DoorClosed(FULL)
        if seeking:
            connection.execute(
                update(listeners).where(listeners.c.id.in_(list(seeking))).values(placed_at=now)
            )


def _by_group(connection: Connection, condition: ColumnElement[bool]) -> dict[str, int]:
    query = select(listeners.c.group_, func.count()).where(condition).group_by(listeners.c.group_)
    return dict(connection.execute(query).tuples().all())
