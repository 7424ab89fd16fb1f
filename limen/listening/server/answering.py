"""Receiving an answer: check it, store it, and move the session to its next screen."""

from collections.abc import Mapping, Sequence
from typing import Any

from limen.listening.design import StoredAnswer
from limen.listening.server.answers import checked
from limen.listening.server.identifiers import hash_key
from limen.listening.server.session_state import PendingAnswer, Session
from limen.listening.server.sessions import Sessions
from limen.listening.server.tables import Record


def store_answer(
    sessions: Sessions,
    key: str,
    screen: str,
    attempt: str,
    answer: Any,
    playback: Sequence[Mapping[str, Any]] = (),
    response_ms: float | None = None,
) -> dict[str, Any]:
    """Store an answer and return the reply to the page after the commit; an answer to a screen that has one
    changes nothing."""
    return complete(sessions, submit(sessions, key, screen, attempt, answer, playback, response_ms))


def is_immediate(sessions: Sessions, key: str, screen: str) -> bool:
    """Whether `submit` needs neither the disk nor a long computation: the session and its sounds are in
    memory, and the next screen is not adaptive."""
    session = sessions.cache.get(key)
    current = session.current if session else None
    if session is None or current is None or session.positions.get(screen) != current.position:
        return False
    following = session.planned[current.position + 1 : current.position + 2]
    return not any(s.track for s in following) and (
        not current.screen.sounds or sessions.sounds.in_memory(current.screen) is not None
    )


def submit(
    sessions: Sessions,
    key: str,
    screen: str,
    attempt: str,
    answer: Any,
    playback: Sequence[Mapping[str, Any]],
    response_ms: float | None,
) -> PendingAnswer:
    """Check an answer and hand it to the store, which is still writing it when this returns."""
    session = sessions.session_showing(key, screen)
    current = session.current
    if current is None or session.positions[screen] != current.position:
        return PendingAnswer(key, screen, session)
    position, shown = current.position, current.screen
    values = checked(shown, answer)
    stored = StoredAnswer(position, {} if shown.personal else values, shown.facts)
    next_screen = sessions.cache.next_screen(session, [stored])
    proof = sessions.sounds.proved(shown, playback)
    heard_sound = any(p["proved"] for p in proof) or next_screen is None
    takes_place = heard_sound and not session.has_place and session.consented_before(position + 1)
    record = Record(
        session.id,
        position,
        attempt,
        shown.step,
        shown.kind,
        shown.role,
        values,
        shown.facts,
        shown.truth,
        shown.correct(values),
        proof,
        response_ms,
        personal=shown.personal,
        last=next_screen is None,
        key_hash=hash_key(key),
        enrolled_as=None if session.answered else (session.group, session.number),
        places=sessions.study.listeners if takes_place else None,
    )
    future = sessions.store.submit(record)
    return PendingAnswer(key, screen, session, current, stored, next_screen, future, takes_place)


def complete(sessions: Sessions, pending: PendingAnswer) -> dict[str, Any]:
    """Wait for the commit, move the session to its next screen and return the reply to the page. If two
    answers to one screen were submitted at the same time, the store has accepted one of them."""
    session, again = pending.session, pending.stored is None or not pending.stored.result()
    if again or pending.answer is None:
        session = sessions.find(pending.key, fresh=True)
    else:
        with session.lock:
            if session.current is pending.current:
                session.answered.append(pending.answer)
                session.finished = pending.next_screen is None
                session.has_place = session.has_place or pending.takes_place
                sessions.cache.advance(session, pending.next_screen)
        if pending.next_screen is None:
            sessions.network_limit.remove(hash_key(pending.key))
        else:
            sessions.network_limit.seen(hash_key(pending.key), session.has_place)
        # a page loaded in the meantime may have put an older session into the cache
        sessions.cache.put(pending.key, session)
    feedback = _feedback(session, session.positions[pending.screen])
    state = sessions.page_state(session, pending.key)
    return {"stored": True, "again": again, "feedback": feedback, "state": state}


def _feedback(session: Session, position: int) -> dict[str, Any] | None:
    """Whether the stored answer was correct, for screens that give feedback."""
    screen = session.planned[position]
    values = next((a.answer for a in session.answered if a.position == position), None)
    if not screen.feedback or not screen.truth or values is None:
        return None
    labels = {w.name: {c.value: c.label for c in w.choices} for w in screen.widgets}
    truth = ", ".join(
        labels.get(name, {}).get(str(value), str(value)) for name, value in screen.truth.items()
    )
    return {"correct": screen.correct(values), "truth_text": truth}
