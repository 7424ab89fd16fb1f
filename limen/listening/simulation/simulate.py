r"""Simulated listeners of known hearing take a study end to end: in this process, or over HTTP from a server
that runs.

What they hear follows textbook models, so that an analysis can be checked against what they truly were: ABX
right with probability p: with 2p - 1 they hear which it is and are sure, else they guess and are not. High
confidence is
                 then always right, low confidence half of the time.
same/different   P("different") = f + (1 - f - l) Phi((strength - t) / s), t drawn per listener and axis, f
false alarms, l lapses ratings          a place on the scale, normal around that of the condition; the better
of two wins by Bradley & Terry's model
"""

import asyncio
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import exp
from pathlib import Path
from typing import Any

from pydantic import Field

from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.seeds import number
from limen.listening.server.answering import store_answer
from limen.listening.server.sessions import Sessions
from limen.listening.server.storage_failures import database_errors
from limen.listening.server.store import Store
from limen.listening.simulation.load_client import Participation, Timing, take_study
from limen.listening.stimuli import digest, length_s
from limen.listening.study import read_study
from limen.trials.base.screen import Screen, Sound, Widget

HIDDEN_REFERENCE = "reference"
"""Its name in `quality`, whatever the condition is called."""


class Hearing(Options):
    """What simulated listeners are. A mapping is looked up by axis, condition, group or value of a factor;
    its key "" is for all others."""

    right: dict[str, float] = Field(default={"": 0.75})
    """Probability of a right answer in ABX."""
    threshold: dict[str, float] = Field(default={"": 40.0})
    """Mean threshold in same/different, in strengths from 0 to 100."""
    threshold_sd: float = Field(default=8.0, ge=0)
    """Spread of thresholds over listeners."""
    slope: float = Field(default=6.0, gt=0)
    lapse: float = Field(default=0.02, ge=0, lt=1)
    false_alarm: float = Field(default=0.04, ge=0, lt=1)
    word: dict[str, float] = Field(default={"": 0.94})
    """Probability of the right word, or of a right answer to any other question that has one."""
    attention: float = Field(default=0.99, ge=0, le=1)
    """Probability of a right answer to a check or a sentinel."""
    quality: dict[str, float] = Field(default={"": 0.6, "reference": 0.97, "clean": 0.8})
    """Mean place on a scale of quality, 0 the worst and 1 the best; "reference" is the hidden reference
    beside the open one."""
    quality_sd: float = Field(default=0.15, gt=0)
    reference_sd: float = Field(default=0.03, gt=0)
    """Spread for a hidden reference, which most listeners recognise."""
    response_s: float = Field(default=4.0, gt=0)
    """Median time of an answer."""


@dataclass
class Simulated:
    """A simulated listener: what they truly were, and what became of them."""

    id: int
    """Number of the listener in the database; 0 if that is out of reach."""
    group: str
    number: int
    seed: int
    hearing: Hearing
    thresholds: dict[str, float] = field(default_factory=dict)
    """Own threshold on each axis that was played."""
    answers: int = 0
    participation: Participation | None = None
    """What was seen over HTTP."""

    def threshold(self, axis: str) -> float:
        if axis not in self.thresholds:
            mean = _of(self.hearing.threshold, {"axis": axis})
            own = random.Random(number(self.seed, "threshold", axis)).gauss(mean, self.hearing.threshold_sd)
            self.thresholds[axis] = min(max(own, 0.0), 100.0)
        return self.thresholds[axis]


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
) -> list[Simulated]:
    """Takes the study with so many listeners.

    Without `url` in this process, into a database of their own (simulated.db, or `database_url`). With `url`
    over HTTP: all come within `ramp_up_s` seconds and think for a time within `think_s` before each answer;
    `informed` listeners hear by the models, for which the server's database (NAME.db, or `database_url`) must
    be readable here; others answer at random. `audio`: sounds are fetched and proved to be played.
    """
    study_path = Path(study_path)
    study, hearing, timing = read_study(study_path), hearing or Hearing(), Timing(ramp_up_s, think_s, audio)
    if url and not informed:
        visits = asyncio.run(_all_visits(url, listeners, seed, timing, None, hearing))
        return [
            Simulated(0, "", k, seed, hearing, answers=len(v.acknowledged), participation=v)
            for k, (v, _) in enumerate(visits)
        ]
    where = database_url or (study_path.parent / f"{study.name}.db" if url else answers_of(study_path))
    with _whole(answers_of(study_path)), database_errors(where), closing(Store(where)) as store:
        sessions = Sessions(study, study_path.parent, store, cache)
        if url:
            known = asyncio.run(_all_visits(url, listeners, seed, timing, sessions, hearing))
            return [person for _, person in known if person is not None]
        keys = [sessions.begin({"participant": f"simulated {seed} {k}"}) for k in range(listeners)]
        people = [_person(sessions, key, seed, hearing) for key in keys]
        with ThreadPoolExecutor(8) as pool:  # answers that wait for the disk together are committed together
            list(pool.map(partial(_take, sessions, audio=audio), people, keys))
        return people


def answers_of(study_path: Path) -> Path:
    """Where simulated answers to a study are kept."""
    return study_path.parent / "simulated.db"


@contextmanager
def _whole(database: Path) -> Iterator[None]:
    """Removes simulated answers that are begun in here and break off: part of them would look like a study
    that was taken."""
    begun = not database.exists()
    try:
        yield
    except BaseException:
        if begun:
            _remove(database)
        raise


def _remove(database: Path) -> None:
    """With the files that SQLite keeps beside it."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def forget(study_path: Path) -> None:
    """Removes earlier simulated answers to a study, which may have been another one then."""
    where = answers_of(study_path)
    if not where.is_file():
        return
    with database_errors(where), closing(Store(where)) as store:
        people = [who["id"] for who in store.listeners() if not who["simulated"]]
    if people:
        raise UserError(
            f"{where}: holds answers of {len(people)} people, which are not thrown away. Move it, or name "
            "another --database."
        )
    _remove(where)


def _person(sessions: Sessions, key: str, seed: int, hearing: Hearing) -> Simulated:
    """A listener who has begun, marked in the database for what they are."""
    session = sessions.find(key)
    sessions.store.mark_simulated(session.id)
    return Simulated(
        session.id,
        session.group,
        session.number,
        number(seed, "simulated", session.group, session.number),
        hearing,
    )


def _take(sessions: Sessions, person: Simulated, key: str, audio: bool) -> None:
    """From the first screen to the last, in this process."""
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
) -> list[tuple[Participation, Simulated | None]]:
    people: dict[int, Simulated] = {}

    async def answer(listener: Participation, shown: Mapping[str, Any]) -> dict[str, Any]:
        chance = random.Random(number(seed, "visit", listener.number, len(listener.acknowledged)))
        if sessions is None:
            return at_random(shown, chance)
        session = await asyncio.to_thread(sessions.find, listener.key, True)
        if listener.number not in people:
            people[listener.number] = _person(sessions, listener.key, seed, hearing)
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


def at_random(shown: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """An answer from what a page shows alone."""

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


def respond(person: Simulated, screen: Screen, chance: random.Random) -> dict[str, Any]:
    """What this listener says to a screen, all of which they know."""
    knows = _knows(person, screen, chance)
    return {w.name: v for w in screen.widgets if (v := _answer(person, screen, w, knows, chance)) is not None}


def _knows(person: Simulated, screen: Screen, chance: random.Random) -> bool:
    """Whether the listener hears what is asked for, rather than guesses."""
    if screen.role in ("check", "sentinel", "teaching"):
        return chance.random() < person.hearing.attention
    if screen.kind == "abx":
        return bool(screen.truth) and chance.random() < 2 * _of(person.hearing.right, screen.facts) - 1
    return chance.random() < _of(person.hearing.word, screen.facts)


def _answer(person: Simulated, screen: Screen, widget: Widget, knows: bool, chance: random.Random) -> Any:
    values = [choice.value for choice in widget.choices]
    if widget.name == "confidence" and values:
        sure = chance.random() < 0.8
        return values[-1 if knows else 0] if sure or len(values) < 3 else values[len(values) // 2]
    if screen.kind == "same_different" and screen.role == "trial":
        return "different" if chance.random() < _different(person, screen) else "same"
    if widget.name in screen.truth:
        right = screen.truth[widget.name]
        if knows or not values:
            return right
        # who guesses an ABX may guess right; who misses a word says another
        return chance.choice(values if screen.kind == "abx" else [v for v in values if v != right] or values)
    if widget.each_sound:
        return {
            s.label: _placed(person, widget, _judged(person, screen, s), chance)
            for s in screen.sounds
            if s.rated
        }
    if widget.kind == "slide" or (values and all(v.isdigit() for v in values)):
        return _placed(person, widget, screen.facts, chance)
    pair = [s for s in screen.sounds if s.rated and s.label in values]
    if len(pair) == 2:
        first, second = (
            _of(person.hearing.quality, {**screen.facts, "condition": s.condition}) for s in pair
        )
        return pair[chance.random() >= 1 / (1 + exp((second - first) / person.hearing.quality_sd))].label
    if values:
        return chance.choice(values)
    return (screen.facts.get("said") if knows else None) or (
        "nothing"[: widget.longest] if widget.required else None
    )


def _different(person: Simulated, screen: Screen) -> float:
    from limen.perception.psychometric import probability

    strength, axis = screen.facts.get("strength", 0.0), str(screen.facts.get("axis", ""))
    if not strength:
        return person.hearing.false_alarm
    return float(
        probability(
            strength,
            person.threshold(axis),
            person.hearing.slope,
            person.hearing.lapse,
            person.hearing.false_alarm,
        )
    )


def _judged(person: Simulated, screen: Screen, sound: Sound) -> dict[str, Any]:
    """What is known of one sound of a screen that has each rated, the same sound as the open reference among
    them."""
    hidden = sound.condition == screen.facts.get("reference") and HIDDEN_REFERENCE in person.hearing.quality
    others = {
        name: value for name, value in screen.facts.items() if name != "reference"
    }  # the quality of another sound
    return {**others, "condition": HIDDEN_REFERENCE if hidden else sound.condition}


def _placed(person: Simulated, widget: Widget, facts: Mapping[str, Any], chance: random.Random) -> Any:
    """A place on a scale, or the choice that is nearest to it."""
    spread = (
        person.hearing.reference_sd
        if facts.get("condition") == HIDDEN_REFERENCE
        else person.hearing.quality_sd
    )
    place = min(max(chance.gauss(_of(person.hearing.quality, facts), spread), 0.0), 1.0)
    if widget.choices:
        return widget.choices[round(place * (len(widget.choices) - 1))].value
    return widget.low + widget.step * round(place * (widget.high - widget.low) / widget.step)


def _of(table: Mapping[str, float], facts: Mapping[str, Any]) -> float:
    """The entry of a table for the axis, condition, group or any other fact of a screen."""
    first = [facts.get(name) for name in ("axis", "condition", "group")]
    found = next(
        (str(v) for v in [*first, *facts.values()] if isinstance(v, str | int | float) and str(v) in table),
        "",
    )
    return table.get(found, 0.5)
