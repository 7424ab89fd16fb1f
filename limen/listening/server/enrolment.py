"""Places and numbers of listeners in a study.

A listener gets a number in their group at once, since their screens follow from it, but takes one of the
study's places only with the first answer that proves that they have heard a sound. Pages that are opened and
left take no place, and the number of a listener who left before their first answer is given to the next one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, update

from limen.core.errors import UserError
from limen.listening.server.tables import ENROLMENT_OF, Record, answers, listeners
from limen.listening.study import Study

FULL = "This study has all the listeners it needs. Thank you for your interest."
ChooseGroup = Callable[[Study, Mapping[str, int]], str]
"""The group a new listener joins, given the number of listeners in each."""
Seed = Callable[[str, int], int]
"""The seed of a listener, given group and number."""
STATES = ("finished", "active", "dropped", "starting", "left")
"""finished: answered the last screen. active: has a place. dropped: has a place, but has been idle for too
long. starting: has begun and has no place yet. left: was idle for too long before taking a place. A listener
is idle while they neither answer nor fetch a sound; a page that only asks for its screen counts as idle."""


class UnknownListener(UserError):
    """No listener has this key, or no longer has it."""

    def __init__(self) -> None:
        super().__init__("This browser is not known to the study. Open the study's address to begin.")


class StudyClosed(UserError):
    """The study takes no new listeners, or no more answers."""


class NumberReassigned(UserError):
    """The listener was away, without any answer so far, and their number was given to another listener."""


class Enrolment:
    def __init__(self, idle_timeout_s: float, start_timeout_s: float):
        """A place becomes free when its listener has been idle for `idle_timeout_s`; the number of a listener
        without answers, after `start_timeout_s`."""
        self.idle_timeout_s, self.start_timeout_s = idle_timeout_s, start_timeout_s

    def has_place(self) -> ColumnElement[bool]:
        """Condition: has a place. Finished listeners keep it; dropped ones lose it to another."""
        here = listeners.c.seen_at > time.time() - self.idle_timeout_s
        return or_(listeners.c.finished_at.is_not(None), and_(listeners.c.placed_at.is_not(None), here))

    def starting(self) -> ColumnElement[bool]:
        """Condition: has no place yet and was active recently."""
        here = listeners.c.seen_at > time.time() - self.start_timeout_s
        return and_(listeners.c.finished_at.is_(None), listeners.c.placed_at.is_(None), here)

    def states(self) -> list[ColumnElement[bool]]:
        """A condition for each of STATES."""
        finished, placed = listeners.c.finished_at.is_not(None), listeners.c.placed_at.is_not(None)
        has_place, starting = self.has_place(), self.starting()
        return [
            finished,
            and_(~finished, has_place),
            and_(placed, ~has_place),
            starting,
            and_(~finished, ~placed, ~starting),
        ]

    def admit(self, connection: Connection, study: Study, choose: ChooseGroup, seed: Seed) -> dict[str, Any]:
        """Group, number and seed of a new listener; StudyClosed if all places are taken."""
        if self._places_taken(connection) >= study.listeners:
            raise StudyClosed(FULL)
        counts = _count_by_group(connection, or_(self.has_place(), self.starting()))
        group = choose(study, {cell: counts.get(cell, 0) for cell in study.cells})
        number = self._free_number(connection, group)
        return {"group_": group, "number": number, "seed": seed(group, number)}

    def _places_taken(self, connection: Connection) -> int:
        return sum(_count_by_group(connection, self.has_place()).values())

    def _free_number(self, connection: Connection, group: str) -> int:
        """The lowest number in the group that is unused, or whose listener left without an answer."""
        without_answers = ~exists().where(answers.c.listener == listeners.c.id)
        here = listeners.c.seen_at > time.time() - self.start_timeout_s
        in_group = and_(listeners.c.group_ == group, listeners.c.number.is_not(None))
        in_use = or_(here, listeners.c.finished_at.is_not(None), ~without_answers)
        used = set(connection.scalars(select(listeners.c.number).where(in_group, in_use)))
        number = next(n for n in count() if n not in used)
        connection.execute(
            update(listeners).where(in_group, listeners.c.number == number).values(number=None)
        )
        return number

    def take_places(self, connection: Connection, records: Sequence[Record], now: float) -> None:
        """Check that answers belong to known listeners, and take the places that they earn. Sessions in
        memory may be older than the database: another process may have erased a listener, or another window
        may have declined."""
        current = {
            row.id: row for row in connection.execute(ENROLMENT_OF, {"ids": [r.listener for r in records]})
        }
        for r in records:
            row = current.get(r.listener)
            if r.key_hash is not None and (row is None or row.key_hash != r.key_hash):
                raise UnknownListener
            if r.enrolled_as is not None and (row is None or r.enrolled_as != (row.group_, row.number)):
                raise NumberReassigned(
                    "You were away for too long, and your place in the order was given to another "
                    "listener. The study begins again here."
                )
        new = {
            r.listener: r.places
            for r in records
            if r.places is not None and current[r.listener].placed_at is None
        }
        if not new:
            return
        if self._places_taken(connection) + len(new) > min(new.values()):
            # the writer repeats each record in a transaction of its own: the first of them still get a place
            raise StudyClosed(FULL)
        connection.execute(update(listeners).where(listeners.c.id.in_(list(new))).values(placed_at=now))


def _count_by_group(connection: Connection, condition: ColumnElement[bool]) -> dict[str, int]:
    query = select(listeners.c.group_, func.count()).where(condition).group_by(listeners.c.group_)
    return dict(connection.execute(query).tuples().all())
