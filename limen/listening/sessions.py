"""A listener's way through a study: study, design and store tied together. The server says in HTTP what is done here.

What a session is can be computed again from the store at any time; it is kept in memory only because that is faster. Answers are refused
twice by the store itself, so even two servers of one study never store one twice.
"""

import base64
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limen.errors import UserError
from limen.listening import design
from limen.listening.answers import checked
from limen.listening.design import Answered
from limen.listening.places import Offer, Place, Session
from limen.listening.sounds import Sounds
from limen.listening.store import Record, Store
from limen.listening.study import Study
from limen.seeds import number
from limen.trials._screen import Screen

KEPT = 2000
"""Sessions in memory; one more costs the oldest, which is then read from the store again when it is wanted."""


class Unknown(UserError):
    """Nobody with this key."""


class Sessions:
    def __init__(self, study: Study, folder: Path, store: Store, cache: Path | None = None):
        """`folder` is that of the study file; `cache` keeps sounds that were made."""
        self.study, self.store = study, store
        self.sounds = Sounds(study, folder, cache or folder / ".limen_sounds")
        self.sounds.check()
        store.bind(study)
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Does in advance what the first listeners would have to wait for."""
        tracks = {screen.track: screen for group in self.study.cells for screen in design.screens(self.study, group, 0) if screen.track}
        for screen in tracks.values():
            design.following(self.study, [screen], [], 0)
        self.sounds.prepare()

    # ---- coming in

    def begin(self, parameters: Mapping[str, str], key: str | None = None) -> str:
        """The key of the listener who begins or returns: known by a recruitment parameter, else by `key`, else new."""
        recruitment = {name: parameters[name] for name in self.study.recruitment.parameters if parameters.get(name)}
        identity = next(iter(recruitment.items()), None)
        if identity is None and key is not None and self._knows(key):
            return key
        returning = None if identity is None else self._sign("returning", *identity).hex()
        # a listener sent by a recruitment site has the same key on every device
        fresh = secrets.token_bytes(24) if returning is None else self._sign("key", returning)[:24]
        fresh_key = base64.urlsafe_b64encode(fresh).decode()
        row = self.store.join(
            self.study, _hashed(fresh_key), returning, recruitment, design.least_filled, lambda *who: number(self.study.seed, *who)
        )
        self._keep(_hashed(fresh_key), self._read(row))
        return fresh_key

    def _knows(self, key: str) -> bool:
        try:
            self.store.seen(self.find(key, fresh=True).id)
        except Unknown:
            return False
        return True

    def find(self, key: str, fresh: bool = False) -> Session:
        """The session of a key; `fresh` reads it from the store whatever is in memory."""
        hashed = _hashed(key)
        with self._lock:
            if not fresh and (session := self._kept.get(hashed)):
                self._kept.move_to_end(hashed)
                return session
        row = self.store.find(hashed)
        if row is None:
            raise Unknown("Nobody is known by this key. Open the study's address to begin.")
        return self._keep(hashed, self._read(row))

    def _keep(self, hashed: str, session: Session) -> Session:
        with self._lock:
            self._kept[hashed] = session
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return session

    def _read(self, row: Any) -> Session:
        answered = [Answered(a.position, a.answer, a.facts) for a in self.store.history(row.id)]
        session = Session(row, design.screens(self.study, row.group_, row.number), answered)
        session.positions = {self._opaque(session.id, a.position): a.position for a in answered}
        self._go(session, self._following(session))
        if session.place is None and not session.finished:
            self.store.finish(session.id)
            session.finished = True
        return session

    def _following(self, session: Session, more: Sequence[Answered] = ()) -> tuple[int, Screen] | None:
        return design.following(self.study, session.planned, [*session.answered, *more], session.seed)

    def _go(self, session: Session, following: tuple[int, Screen] | None) -> None:
        if following is None:
            session.place = None
        else:
            position, screen = following
            sounds = {self._opaque(session.id, position, i): i for i in range(len(screen.sounds))}
            shown = screen.public() | {"id": self._opaque(session.id, position)}
            shown["sounds"] = [sound | {"url": f"/audio/{opaque}"} for sound, opaque in zip(shown["sounds"], sounds, strict=True)]
            session.positions[shown["id"]] = position
            session.place = Place(position, screen, shown, sounds)

    # ---- what a page is told

    def state(self, key: str, fresh: bool = True) -> dict[str, Any]:
        """What the page shows now. Read from the store: another device may have gone on."""
        session = self.find(key, fresh)
        if fresh:
            self.store.seen(session.id)
        return self._told(session, key)

    def _told(self, session: Session, key: str) -> dict[str, Any]:
        about = {"study": {"title": self.study.title, "contact": self.study.contact}, "total": len(session.planned)}
        place = session.place
        if place is None:
            return about | {"position": len(session.planned), "done": True, **self._farewell(session)}
        return about | {"position": place.position, "done": False, "screen": place.shown, "resume": f"/resume/{key}"}

    def _farewell(self, session: Session) -> dict[str, str | None]:
        code = base64.b32encode(self._sign("code", session.id))[:10].decode()
        address = self.study.recruitment.redirect
        if address:
            known = self.store.parameters(session.id)
            for name, value in {**dict.fromkeys(self.study.recruitment.parameters, ""), **known, "code": code}.items():
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
        session = self._kept.get(_hashed(key))
        place = session.place if session else None
        made = self.sounds.ready(place.screen) if place and opaque in place.sounds else None
        return made.wavs[place.sounds[opaque]] if place and made else None

    # ---- answers

    def answer(self, key: str, screen: str, attempt: str, answer: Any, playback: Sequence[Mapping[str, Any]] = (),
               response_ms: float | None = None) -> dict[str, Any]:  # fmt: skip
        """Stores an answer once, and returns after the commit; an answer to a screen that has one changes nothing."""
        return self.settle(self.offer(key, screen, attempt, answer, playback, response_ms))

    def at_hand(self, key: str, screen: str) -> bool:
        """Whether `offer` needs neither disk nor thought: the session and its sounds are in memory, and no level must be chosen."""
        session = self._kept.get(_hashed(key))
        place = session.place if session else None
        if session is None or place is None or session.positions.get(screen) != place.position:
            return False
        coming = session.planned[place.position + 1 : place.position + 2]
        return not any(s.track for s in coming) and (not place.screen.sounds or self.sounds.ready(place.screen) is not None)

    def offer(self, key: str, screen: str, attempt: str, answer: Any, playback: Sequence[Mapping[str, Any]],
              response_ms: float | None) -> Offer:  # fmt: skip
        """Checks an answer and hands it to the store, which is still writing when this returns."""
        session = self.find(key)
        if screen not in session.positions:
            session = self.find(key, fresh=True)
        if screen not in session.positions:
            raise UserError("This answer belongs to no screen of yours that was shown. Load the page again.")
        place = session.place
        if place is None or session.positions[screen] != place.position:
            return Offer(key, screen, session)
        position, asked = place.position, place.screen
        given = checked(asked, answer)
        kept = Answered(position, {} if asked.personal else given, asked.facts)
        following = self._following(session, [kept])
        record = Record(
            session.id, position, attempt, asked.step, asked.kind, asked.role, given, asked.facts, asked.truth, asked.correct(given),
            self.sounds.proved(asked, playback), response_ms, personal=asked.personal, last=following is None,
        )  # fmt: skip
        return Offer(key, screen, session, place, kept, following, self.store.start_append(record))

    def settle(self, offer: Offer) -> dict[str, Any]:
        """Waits for the store and says what became of an answer. Of two that were offered at once the store has taken one."""
        session, again = offer.session, offer.stored is None or not offer.stored.result()
        if again or offer.kept is None:
            session = self.find(offer.key, fresh=True)
        else:
            with session.lock:
                if session.place is offer.place:
                    session.answered.append(offer.kept)
                    session.finished = offer.following is None
                    self._go(session, offer.following)
            self._keep(_hashed(offer.key), session)  # a page that was loaded meanwhile may have put an older one there
        told = self._feedback(session, session.positions[offer.screen])
        return {"stored": True, "again": again, "feedback": told, "state": self._told(session, offer.key)}

    def _feedback(self, session: Session, position: int) -> dict[str, Any] | None:
        screen = session.planned[position]
        given = next((a.answer for a in session.answered if a.position == position), None)
        if not screen.feedback or not screen.truth or given is None:
            return None
        words = {w.name: {c.value: c.label for c in w.choices} for w in screen.widgets}
        right = ", ".join(words.get(name, {}).get(str(value), str(value)) for name, value in screen.truth.items())
        return {"correct": screen.correct(given), "truth_text": right}

    # ---- secrets

    def _opaque(self, listener: int, position: int, sound: int | str = "screen") -> str:
        return self._sign("opaque", listener, position, sound).hex()[:32]

    def _sign(self, *words: object) -> bytes:
        return hmac.digest(self.store.secret, "\x1f".join(map(str, words)).encode(), "sha256")


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
