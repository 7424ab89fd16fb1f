"""A listener's way through a study: study, design and store tied together. The server says in HTTP what is
done here.

What a session is can be computed again from the store at any time; it is kept in memory only because that is
faster. Answers are refused twice by the store itself, so even two servers of one study never store one twice.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limen.core.errors import UserError
from limen.core.seeds import number
from limen.listening import design
from limen.listening.design import StoredAnswer
from limen.listening.server.answers import checked
from limen.listening.server.arrivals import Arrivals
from limen.listening.server.guard import Limits
from limen.listening.server.keys import Keys, hashed
from limen.listening.server.seats import Unknown
from limen.listening.server.session_state import Offer, Place, Session
from limen.listening.server.sounds import Sounds
from limen.listening.server.store import Record, Store
from limen.listening.study import Study
from limen.trials.base.screen import Screen

KEPT = 2000
"""Sessions in memory; one more costs the oldest, which is then read from the store again when it is
wanted."""

NOTED_S = 5.0
"""Between two notes that a listener fetches sounds."""


class Sessions:
    def __init__(
        self,
        study: Study,
        folder: Path,
        store: Store,
        cache: Path | None = None,
        limits: Limits | None = None,
    ):
        """`folder` is that of the study file; `cache` keeps sounds that were made; `limits` say how many
        begin from one address."""
        self.study, self.store, self.keys = study, store, Keys(store.secret, study)
        self.arrivals = Arrivals(limits or Limits(), study.listeners, store.begun_s, store.patience_s)
        self.sounds = Sounds(study, folder, cache or folder / ".limen_sounds")
        self.sounds.check()
        store.bind(study)
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Does in advance what the first listeners would have to wait for."""
        tracks = {
            screen.track: screen
            for group in self.study.cells
            for screen in design.screens(self.study, group, 0)
            if screen.track
        }
        for screen in tracks.values():
            design.next_screen(self.study, [screen], [], 0)
        self.sounds.prepare()

    # ---- coming in

    def begin(self, parameters: Mapping[str, str], key: str | None = None, address: str | None = None) -> str:
        """The key of the listener who begins or returns: known by a recruitment parameter, else by `key`,
        else new.

        From one `address` few may begin at once; without one, as many as like."""
        returning = self.keys.returning(self.study.recruitment.who(parameters))
        if returning is None and key is not None and self._knows(key):
            return key
        fresh_key = self.keys.of_listener(returning)
        is_new = address is not None and not (returning and self.store.returns(returning))
        if is_new:
            self.arrivals.admit(hashed(fresh_key), str(address))
        try:
            told = self.study.recruitment.read(parameters)
            row = self.store.join(
                self.study, hashed(fresh_key), returning, told, design.least_filled, self._seed
            )
        except BaseException:
            self.arrivals.gone(hashed(fresh_key))
            raise
        self._keep(hashed(fresh_key), self._read(row))
        return fresh_key

    def preview(self) -> dict[str, Any]:
        """What a visitor sees who only looks: the first pages, up to the first sound."""
        pages = takewhile(
            lambda screen: not screen.sounds, design.screens(self.study, self.study.cells[0], 0)
        )
        return {
            "study": self._about(),
            "preview": True,
            "screens": [screen.public() | {"id": "preview"} for screen in pages],
        }

    def _seed(self, group: str, listener: int) -> int:
        return number(self.study.seed, group, listener)

    def _knows(self, key: str) -> bool:
        try:
            self.find(key, fresh=True)
        except Unknown:
            return False
        return True

    def decline(self, key: str) -> None:
        """Forgets a listener who does not agree, while they are at the screen that asks for it."""
        session = self.find(key, fresh=True)
        place = session.place
        if place is None or not place.screen.decline or not self.store.decline(session.id, place.position):
            raise UserError("You have agreed already. To stop taking part, close the page.")
        with self._lock:
            self._kept.pop(hashed(key), None)
        self.arrivals.gone(hashed(key))

    def find(self, key: str, fresh: bool = False) -> Session:
        """The session of a key; `fresh` reads it from the store whatever is in memory."""
        name = hashed(key)
        with self._lock:
            if not fresh and (session := self._kept.get(name)):
                self._kept.move_to_end(name)
                return session
        row = self.store.find(name)
        if row is None:
            raise Unknown
        if row.number is None:  # it went to another while this listener was away
            row = self.store.readmit(self.study, row.id, design.least_filled, self._seed)
        return self._keep(name, self._read(row))

    def _keep(self, name: str, session: Session) -> Session:
        with self._lock:
            self._kept[name] = session
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return session

    def _read(self, row: Any) -> Session:
        answered = [StoredAnswer(a.position, a.answer, a.facts) for a in self.store.history(row.id)]
        session = Session(row, design.screens(self.study, row.group_, row.number), answered)
        session.positions = {self.keys.opaque(session.id, a.position): a.position for a in answered}
        self._go(session, self._following(session))
        if session.place is None and not session.finished:
            self.store.finish(session.id)
            session.finished = True
        return session

    def _following(self, session: Session, more: Sequence[StoredAnswer] = ()) -> tuple[int, Screen] | None:
        return design.next_screen(self.study, session.planned, [*session.answered, *more], session.seed)

    def _go(self, session: Session, following: tuple[int, Screen] | None) -> None:
        if following is None:
            session.place = None
        else:
            position, screen = following
            sounds = {self.keys.opaque(session.id, position, i): i for i in range(len(screen.sounds))}
            shown = screen.public() | {"id": self.keys.opaque(session.id, position)}
            shown["sounds"] = [
                sound | {"url": f"/audio/{opaque}"}
                for sound, opaque in zip(shown["sounds"], sounds, strict=True)
            ]
            session.positions[shown["id"]] = position
            session.place = Place(position, screen, shown, sounds)

    # ---- what a page is told

    def state(
        self, key: str, fresh: bool = True, parameters: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """What the page shows now. Read from the store: another device may have gone on. `parameters` of the
        page's address may name another person than the one whom this browser is known as."""
        session = self.find(key, fresh)
        who = self.keys.returning(self.study.recruitment.who(parameters or {}))
        if who is not None and who != session.returning:
            raise Unknown
        return self._told(session, key)

    def _told(self, session: Session, key: str) -> dict[str, Any]:
        about = {"study": self._about(), "total": len(session.planned)}
        place = session.place
        if place is None:
            return about | {"position": len(session.planned), "done": True, **self._farewell(session)}
        return about | {
            "position": place.position,
            "done": False,
            "screen": place.shown,
            "resume": f"/resume/{key}",
        }

    def _about(self) -> dict[str, str]:
        return {"title": self.study.title, "contact": self.study.contact}

    def _farewell(self, session: Session) -> dict[str, str | None]:
        code, how = self.keys.code(session.id), self.study.recruitment
        address = how.redirect
        if address:
            known = self.store.parameters(session.id)
            for name, value in {**dict.fromkeys(how.kept, ""), **known, "code": code}.items():
                address = address.replace("{" + name + "}", quote(value, safe=""))
        return {"code": code, "redirect": address}

    def audio(self, key: str, opaque: str) -> bytes | None:
        """A sound of the listener's current screen; None for any other id."""
        for fresh in (False, True):
            place = self.find(key, fresh).place
            if place is not None and opaque in place.sounds:
                return self.sounds.of(place.screen).wavs[place.sounds[opaque]]
        return None

    def audio_at_once(self, key: str, opaque: str) -> bytes | None:
        """The same if it is in memory; None says nothing."""
        session = self._kept.get(hashed(key))
        place = session.place if session else None
        made = self.sounds.ready(place.screen) if place and opaque in place.sounds else None
        return made.wavs[place.sounds[opaque]] if place and made else None

    def fetched(self, key: str) -> None:
        """Notes that a listener has fetched a sound, and so takes part; does not wait for the commit. A page
        that merely asks where it stands is no sign of somebody who listens."""
        session = self._kept.get(hashed(key))
        if session is not None and time.monotonic() - session.noted_at >= NOTED_S:
            session.noted_at = time.monotonic()
            self.store.seen(session.id)
            self.arrivals.seen(hashed(key), session.placed)

    # ---- events and answers

    def event(self, key: str, screen: str, kind: str) -> bool:
        """Notes what happened on the page while a screen was shown; False, and nothing is kept, before
        consent and after the end."""
        session = self._at(key, screen)
        if session.place is None or not session.agrees_before(session.place.position):
            return False
        return self.store.event(session.id, hashed(key), session.positions[screen], kind)

    def _at(self, key: str, screen: str) -> Session:
        """The session of a listener to whom the screen was shown."""
        for fresh in (False, True):
            session = self.find(key, fresh)
            if screen in session.positions:
                return session
        raise UserError("This belongs to no screen of yours that was shown. Load the page again.")

    def answer(
        self,
        key: str,
        screen: str,
        attempt: str,
        answer: Any,
        playback: Sequence[Mapping[str, Any]] = (),
        response_ms: float | None = None,
    ) -> dict[str, Any]:
        """Stores an answer once, and returns after the commit; an answer to a screen that has one changes
        nothing."""
        return self.settle(self.offer(key, screen, attempt, answer, playback, response_ms))

    def at_hand(self, key: str, screen: str) -> bool:
        """Whether `offer` needs neither disk nor thought: the session and its sounds are in memory, and no
        level must be chosen."""
        session = self._kept.get(hashed(key))
        place = session.place if session else None
        if session is None or place is None or session.positions.get(screen) != place.position:
            return False
        coming = session.planned[place.position + 1 : place.position + 2]
        return not any(s.track for s in coming) and (
            not place.screen.sounds or self.sounds.ready(place.screen) is not None
        )

    def offer(
        self,
        key: str,
        screen: str,
        attempt: str,
        answer: Any,
        playback: Sequence[Mapping[str, Any]],
        response_ms: float | None,
    ) -> Offer:
        """Checks an answer and hands it to the store, which is still writing when this returns."""
        session = self._at(key, screen)
        place = session.place
        if place is None or session.positions[screen] != place.position:
            return Offer(key, screen, session)
        position, asked = place.position, place.screen
        given = checked(asked, answer)
        kept = StoredAnswer(position, {} if asked.personal else given, asked.facts)
        following, proof = self._following(session, [kept]), self.sounds.proved(asked, playback)
        heard = any(p["proved"] for p in proof) or following is None
        earns = heard and not session.placed and session.agrees_before(position + 1)
        record = Record(
            session.id,
            position,
            attempt,
            asked.step,
            asked.kind,
            asked.role,
            given,
            asked.facts,
            asked.truth,
            asked.correct(given),
            proof,
            response_ms,
            personal=asked.personal,
            last=following is None,
            key_hash=hashed(key),
            was=None if session.answered else (session.group, session.number),
            places=self.study.listeners if earns else None,
        )
        return Offer(key, screen, session, place, kept, following, self.store.start_append(record), earns)

    def settle(self, offer: Offer) -> dict[str, Any]:
        """Waits for the store and says what became of an answer. Of two that were offered at once the store
        has taken one."""
        session, again = offer.session, offer.stored is None or not offer.stored.result()
        if again or offer.kept is None:
            session = self.find(offer.key, fresh=True)
        else:
            with session.lock:
                if session.place is offer.place:
                    session.answered.append(offer.kept)
                    session.finished = offer.following is None
                    session.placed = session.placed or offer.earns
                    self._go(session, offer.following)
            if offer.following is None:
                self.arrivals.gone(hashed(offer.key))
            else:
                self.arrivals.seen(hashed(offer.key), session.placed)
            self._keep(
                hashed(offer.key), session
            )  # a page that was loaded meanwhile may have put an older one there
        told = self._feedback(session, session.positions[offer.screen])
        return {"stored": True, "again": again, "feedback": told, "state": self._told(session, offer.key)}

    def _feedback(self, session: Session, position: int) -> dict[str, Any] | None:
        screen = session.planned[position]
        given = next((a.answer for a in session.answered if a.position == position), None)
        if not screen.feedback or not screen.truth or given is None:
            return None
        words = {w.name: {c.value: c.label for c in w.choices} for w in screen.widgets}
        right = ", ".join(
            words.get(name, {}).get(str(value), str(value)) for name, value in screen.truth.items()
        )
        return {"correct": screen.correct(given), "truth_text": right}
