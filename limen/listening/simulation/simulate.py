"""Simulated listeners take a study from beginning to end: in this process, or over HTTP from a running
server.

Their answers follow the models of limen.trials.base.hearing and of the trial types.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from limen.core.errors import UserError
from limen.core.seeds import number
from limen.listening.server.answering import store_answer
from limen.listening.server.sessions import Sessions
from limen.listening.server.storage_failures import database_errors
from limen.listening.server.store import Store
from limen.listening.simulation.load_client import Participation, Timing, take_study
from limen.listening.stimuli import digest, length_s
from limen.listening.study import read_study
from limen.trials.base.hearing import Hearing, SimulatedListener
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type


@dataclass
class Participant(SimulatedListener):
    """A simulated listener in a study."""

    id: int = 0
    """Number of the listener in the database; 0 if the database cannot be read."""
    group: str = ""
    number: int = 0
    answers: int = 0
    participation: Participation | None = None
    """Record of taking part over HTTP."""


def simulate(
    study_path: str | Path,
    listeners: int,
    url: str | None = None,
    seed: int = 0,
    hearing: Hearing | None = None,
    *,
    database_url: str | None = None,
    cache: Path | None = None,
    audio: bool = True,
    informed: bool = True,
    ramp_up_s: float = 0.0,
    think_s: tuple[float, float] = (0.0, 0.0),
) -> list[Participant]:
    """Take the study with this number of simulated listeners.

    Without `url`: in this process, into a database of its own (simulated.db, or `database_url`). With `url`:
    over HTTP; all arrive within `ramp_up_s` seconds and wait for a time within `think_s` before each answer.
    `informed` listeners answer by the models, which requires read access to the server's database (NAME.db,
    or `database_url`); others answer at random. `audio`: sounds are fetched, with proof that they were
    played.
    """
    study_path = Path(study_path)
    study, hearing, timing = read_study(study_path), hearing or Hearing(), Timing(ramp_up_s, think_s, audio)
    if url and not informed:
        visits = asyncio.run(_all_visits(url, listeners, seed, timing, None, hearing))
        return [
            Participant(seed, hearing, number=k, answers=len(v.acknowledged), participation=v)
            for k, (v, _) in enumerate(visits)
        ]
    where = database_url or (
        study_path.parent / f"{study.name}.db" if url else simulated_database(study_path)
    )
    with (
        _removed_if_broken_off(simulated_database(study_path)),
        database_errors(where),
        closing(Store(where)) as store,
    ):
        sessions = Sessions(study, study_path.parent, store, cache)
        if url:
            known = asyncio.run(_all_visits(url, listeners, seed, timing, sessions, hearing))
            return [person for _, person in known if person is not None]
        keys = [sessions.begin({"participant": f"simulated {seed} {k}"}) for k in range(listeners)]
        people = [_participant(sessions, key, seed, hearing) for key in keys]
        with ThreadPoolExecutor(8) as pool:  # answers written at the same time share a commit
            list(pool.map(partial(_take, sessions, audio=audio), people, keys))
        return people


def simulated_database(study_path: Path) -> Path:
    """Path of the database of simulated answers to a study."""
    return study_path.parent / "simulated.db"


@contextmanager
def _removed_if_broken_off(database: Path) -> Iterator[None]:
    """Remove a new database of simulated answers if the simulation fails: incomplete answers would look like
    those of a study."""
    new = not database.exists()
    try:
        yield
    except BaseException:
        if new:
            _remove(database)
        raise


def _remove(database: Path) -> None:
    """With the auxiliary files of SQLite."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def remove_simulated(study_path: Path) -> None:
    """Remove earlier simulated answers to a study, whose file may have changed since."""
    where = simulated_database(study_path)
    if not where.is_file():
        return
    with database_errors(where), closing(Store(where)) as store:
        people = [who["id"] for who in store.listeners() if not who["simulated"]]
    if people:
        raise UserError(
            f"{where}: contains answers of people ({len(people)}), so it is not deleted. Move it, or "
            "give another --database."
        )
    _remove(where)


def _participant(sessions: Sessions, key: str, seed: int, hearing: Hearing) -> Participant:
    """A listener who has begun, marked in the database as simulated."""
    session = sessions.find(key)
    sessions.store.mark_simulated(session.id)
    return Participant(
        number(seed, "simulated", session.group, session.number),
        hearing,
        id=session.id,
        group=session.group,
        number=session.number,
    )


def _take(sessions: Sessions, person: Participant, key: str, audio: bool) -> None:
    """Answer all screens, in this process."""
    while (current := sessions.find(key).current) is not None:
        position, screen, shown = current.position, current.screen, current.public
        playback = [
            _played(sound["label"], sessions.audio(key, sound["url"].rpartition("/")[2]))
            for sound in shown["sounds"]
            if audio
        ]
        chance = random.Random(number(person.seed, position))
        answer = respond(person, screen, chance)
        store_answer(
            sessions,
            key,
            shown["id"],
            f"{person.seed}-{position}",
            answer,
            playback,
            1000 * _time_s(person.hearing, chance),
        )
        person.answers += 1


def _played(label: str, wav: bytes | None) -> dict[str, Any]:
    assert wav is not None
    return {"label": label, "digest": digest(wav), "rate_hz": 48_000.0, "plays": 1, "played_s": length_s(wav)}


def _time_s(hearing: Hearing, chance: random.Random) -> float:
    return hearing.response_s * chance.lognormvariate(0, 0.4)


async def _all_visits(
    url: str, listeners: int, seed: int, timing: Timing, sessions: Sessions | None, hearing: Hearing
) -> list[tuple[Participation, Participant | None]]:
    people: dict[int, Participant] = {}

    async def answer(listener: Participation, shown: Mapping[str, Any]) -> dict[str, Any]:
        chance = random.Random(number(seed, "visit", listener.number, len(listener.acknowledged)))
        if sessions is None:
            return random_answers(shown, chance)
        session = await asyncio.to_thread(sessions.find, listener.key, True)
        if listener.number not in people:
            people[listener.number] = _participant(sessions, listener.key, seed, hearing)
        assert session.current is not None
        people[listener.number].answers += 1
        return respond(people[listener.number], session.current.screen, chance)

    chances = [random.Random(number(seed, "pace", k)) for k in range(listeners)]
    visits = await asyncio.gather(
        *(take_study(url, Participation(k), answer, chances[k], timing) for k in range(listeners))
    )
    for k, person in people.items():
        person.participation = visits[k]
    return [(v, people.get(v.number)) for v in visits]


def random_answers(shown: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Random answers, from what a page shows."""

    def one(w: Mapping[str, Any]) -> Any:
        if w["kind"] == "choose":
            return chance.choice(w["choices"])["value"]
        return (
            "nothing"[: w["longest"]]
            if w["kind"] == "type"
            else w["low"] + w["step"] * chance.randint(0, round((w["high"] - w["low"]) / w["step"]))
        )

    return {
        w["name"]: {s["label"]: one(w) for s in shown["sounds"] if s["rated"]} if w["each_sound"] else one(w)
        for w in shown["widgets"]
    }


def respond(person: SimulatedListener, screen: Screen, chance: random.Random) -> dict[str, Any]:
    """Answers of a simulated listener to the widgets of a screen."""
    trial = trial_type(screen.kind)
    if screen.role in ("check", "sentinel", "teaching"):
        knows = chance.random() < person.hearing.attention
    else:
        knows = trial.knows(person, screen, chance)
    answers = {w.name: trial.simulated_answer(person, screen, w, knows, chance) for w in screen.widgets}
    return {name: answer for name, answer in answers.items() if answer is not None}
