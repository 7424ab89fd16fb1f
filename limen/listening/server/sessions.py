"""A listener's way through a study: connects study, design and store. The HTTP routes only translate what is
done here.

The state of a session can be computed from the store at any time. The store itself refuses a second answer to
a screen, so even two servers of one study never store an answer twice.
"""

import time
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limen.core.errors import UserError
from limen.listening import design
from limen.listening.server.enrolment import UnknownListener
from limen.listening.server.identifiers import Identifiers, hash_key
from limen.listening.server.limits import Limits
from limen.listening.server.network_limit import NetworkLimit
from limen.listening.server.session_cache import SessionCache
from limen.listening.server.session_state import Session
from limen.listening.server.sounds import Sounds
from limen.listening.server.store import Store
from limen.listening.study import Study

ACTIVITY_S = 5.0
"""Seconds between two notes in the store that a listener fetches sounds."""


class Sessions:
    def __init__(
        self,
        study: Study,
        folder: Path,
        store: Store,
        cache: Path | None = None,
        limits: Limits | None = None,
    ):
        """`folder`: the folder of the study file. `cache`: folder for rendered sounds. `limits`: how many
        listeners may begin from one address."""
        self.study, self.store, self.identifiers = study, store, Identifiers(store.secret, study)
        self.network_limit = NetworkLimit(
            limits or Limits(), study.listeners, store.start_timeout_s, store.idle_timeout_s
        )
        self.sounds = Sounds(study, folder, cache or folder / ".limen_sounds")
        self.sounds.check()
        store.bind(study)
        self.cache = SessionCache(study, store, self.identifiers)

    def prepare(self) -> None:
        """Do in advance what the first listeners would have to wait for: start adaptive tracks and render
        sounds."""
        tracks = {
            screen.track: screen
            for group in self.study.cells
            for screen in design.screens(self.study, group, 0)
            if screen.track
        }
        for screen in tracks.values():
            design.next_screen(self.study, [screen], [], 0)
        self.sounds.prepare()

    # ---- beginning and returning

    def begin(self, parameters: Mapping[str, str], key: str | None = None, address: str | None = None) -> str:
        """The key of a listener who begins or returns: recognised by a recruitment parameter, else by `key`,
        else a new listener. The number of listeners who begin from one `address` is limited; None has no
        limit."""
        returning_hash = self.identifiers.returning_hash(self.study.recruitment.who(parameters))
        if returning_hash is None and key is not None and self._is_known(key):
            return key
        new_key = self.identifiers.listener_key(returning_hash)
        if address is not None and not (returning_hash and self.store.has_returning(returning_hash)):
            self.network_limit.admit(hash_key(new_key), address)
        try:
            row = self.store.join(
                self.study,
                hash_key(new_key),
                returning_hash,
                self.study.recruitment.read(parameters),
                design.least_filled,
                self.cache.seed,
            )
        except BaseException:
            self.network_limit.remove(hash_key(new_key))
            raise
        self.cache.put(new_key, self.cache.load(row))
        return new_key

    def preview(self) -> dict[str, Any]:
        """The first pages, up to the first sound, for a visitor who previews the study."""
        pages = takewhile(
            lambda screen: not screen.sounds, design.screens(self.study, self.study.cells[0], 0)
        )
        return {
            "study": self._about(),
            "preview": True,
            "screens": [screen.public() | {"id": "preview"} for screen in pages],
        }

    def _is_known(self, key: str) -> bool:
        try:
            self.find(key, fresh=True)
        except UnknownListener:
            return False
        return True

    def decline(self, key: str) -> None:
        """Delete a listener who does not agree, while they are at the screen that asks for consent."""
        session = self.find(key, fresh=True)
        current = session.current
        at_consent = current is not None and current.screen.decline
        if current is None or not at_consent or not self.store.decline(session.id, current.position):
            raise UserError("You have agreed already. To stop taking part, close the page.")
        self.cache.remove(key)
        self.network_limit.remove(hash_key(key))

    def find(self, key: str, fresh: bool = False) -> Session:
        """The session of a key; `fresh` computes it from the store even if it is in memory."""
        return self.cache.find(key, fresh)

    # ---- what the page shows

    def state(
        self, key: str, fresh: bool = True, parameters: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """What the page shows now, computed from the store because another device may have answered.
        UnknownListener if `parameters` of the page's address name another person than the browser's."""
        session = self.find(key, fresh)
        person = self.identifiers.returning_hash(self.study.recruitment.who(parameters or {}))
        if person is not None and person != session.returning_hash:
            raise UnknownListener
        return self.page_state(session, key)

    def page_state(self, session: Session, key: str) -> dict[str, Any]:
        about = {"study": self._about(), "total": len(session.planned)}
        current = session.current
        if current is None:
            return about | {"position": len(session.planned), "done": True, **self._end(session)}
        return about | {
            "position": current.position,
            "done": False,
            "screen": current.public,
            "resume": f"/resume/{key}",
        }

    def _about(self) -> dict[str, str]:
        return {"title": self.study.title, "contact": self.study.contact}

    def _end(self, session: Session) -> dict[str, str | None]:
        code, recruitment = self.identifiers.completion_code(session.id), self.study.recruitment
        address = recruitment.redirect
        if address:
            parameters = self.store.parameters(session.id)
            for name, value in {**dict.fromkeys(recruitment.kept, ""), **parameters, "code": code}.items():
                address = address.replace("{" + name + "}", quote(value, safe=""))
        return {"code": code, "redirect": address}

    # ---- sounds and events

    def audio(self, key: str, opaque: str) -> bytes | None:
        """A sound of the listener's current screen; None for any other id."""
        for fresh in (False, True):
            current = self.find(key, fresh).current
            if current is not None and opaque in current.sounds:
                return self.sounds.of(current.screen).wavs[current.sounds[opaque]]
        return None

    def audio_in_memory(self, key: str, opaque: str) -> bytes | None:
        """The same if it is in memory; None does not mean that the sound does not exist."""
        session = self.cache.get(key)
        current = session.current if session else None
        rendered = self.sounds.in_memory(current.screen) if current and opaque in current.sounds else None
        return rendered.wavs[current.sounds[opaque]] if current and rendered else None

    def fetched(self, key: str) -> None:
        """Note that a listener has fetched a sound and therefore takes part, without waiting for the commit.
        A page that only asks for its screen does not count as taking part."""
        session = self.cache.get(key)
        if session is not None and time.monotonic() - session.activity_noted_at >= ACTIVITY_S:
            session.activity_noted_at = time.monotonic()
            self.store.mark_seen(session.id)
            self.network_limit.seen(hash_key(key), session.has_place)

    def event(self, key: str, screen: str, kind: str) -> bool:
        """Store what happened on the page while a screen was shown; False, and nothing is stored, before
        consent and after the end."""
        session = self.session_showing(key, screen)
        if session.current is None or not session.consented_before(session.current.position):
            return False
        return self.store.event(session.id, hash_key(key), session.positions[screen], kind)

    def session_showing(self, key: str, screen: str) -> Session:
        """The session of a listener who has been shown the screen with this id."""
        for fresh in (False, True):
            session = self.find(key, fresh)
            if screen in session.positions:
                return session
        raise UserError("This screen was not shown to you. Load the page again.")
