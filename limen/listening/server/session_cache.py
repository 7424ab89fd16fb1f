"""Sessions in memory: each is computed from the store, and kept only because that is faster."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from limen.core.seeds import number
from limen.listening import design
from limen.listening.design import StoredAnswer
from limen.listening.server.enrolment import UnknownListener
from limen.listening.server.identifiers import Identifiers, hash_key
from limen.listening.server.session_state import CurrentScreen, Session
from limen.listening.server.store import Store
from limen.listening.study import Study
from limen.trials.base.screen import Screen

MAX_SESSIONS = 2000
"""Beyond this the least recently used session is dropped from memory."""


class SessionCache:
    def __init__(self, study: Study, store: Store, identifiers: Identifiers):
        self._study, self._store, self._identifiers = study, store, identifiers
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Session | None:
        """The session of a key if it is in memory."""
        return self._sessions.get(hash_key(key))

    def find(self, key: str, fresh: bool = False) -> Session:
        """The session of a key; `fresh` computes it from the store even if it is in memory."""
        name = hash_key(key)
        with self._lock:
            if not fresh and (session := self._sessions.get(name)):
                self._sessions.move_to_end(name)
                return session
        row = self._store.find(name)
        if row is None:
            raise UnknownListener
        if row.number is None:  # given to another listener while this one was away
            row = self._store.readmit(self._study, row.id, design.least_filled, self.seed)
        return self.put(key, self.load(row))

    def put(self, key: str, session: Session) -> Session:
        with self._lock:
            self._sessions[hash_key(key)] = session
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def remove(self, key: str) -> None:
        with self._lock:
            self._sessions.pop(hash_key(key), None)

    def seed(self, group: str, listener: int) -> int:
        return number(self._study.seed, group, listener)

    def load(self, row: Any) -> Session:
        """The session of a listener, computed from their row and their stored answers."""
        answered = [StoredAnswer(a.position, a.answer, a.facts) for a in self._store.history(row.id)]
        session = Session(row, design.screens(self._study, row.group_, row.number), answered)
        session.positions = {
            self._identifiers.opaque_id(session.id, a.position): a.position for a in answered
        }
        self.advance(session, self.next_screen(session))
        if session.current is None and not session.finished:
            self._store.mark_finished(session.id)
            session.finished = True
        return session

    def next_screen(self, session: Session, more: Sequence[StoredAnswer] = ()) -> tuple[int, Screen] | None:
        """Position and screen that follow the stored answers and `more`; None at the end."""
        return design.next_screen(self._study, session.planned, [*session.answered, *more], session.seed)

    def advance(self, session: Session, next_screen: tuple[int, Screen] | None) -> None:
        """Move a session to its next screen."""
        if next_screen is None:
            session.current = None
            return
        position, screen = next_screen
        opaque_id = self._identifiers.opaque_id
        sounds = {opaque_id(session.id, position, i): i for i in range(len(screen.sounds))}
        public = screen.public() | {"id": opaque_id(session.id, position)}
        public["sounds"] = [
            sound | {"url": f"/audio/{opaque}"}
            for sound, opaque in zip(public["sounds"], sounds, strict=True)
        ]
        session.positions[public["id"]] = position
        session.current = CurrentScreen(position, screen, public, sounds)
