"""Who took part: recruitment parameters, completion codes, times, demographics and comments. Personal, and
kept apart from the answers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from limen.listening import design
from limen.listening.analysis.columns import PEOPLE, people_columns, questions
from limen.listening.analysis.export import rows
from limen.listening.server.identifiers import Identifiers
from limen.listening.server.store import Store
from limen.listening.study import Study


def people(store: Store, study: Study) -> list[dict[str, Any]]:
    """One row for each listener, with the columns of `people_columns`."""
    answers, listeners, identifiers = store.answers(), store.listeners(), Identifiers(store.secret, study)
    excluded = {row["listener"]: row for row in rows(answers, listeners, study)}
    recruited = {row["listener"]: row["data"] for row in store.recruits()}
    told: dict[int, list[Mapping[str, Any]]] = {}
    for row in store.personal():
        told.setdefault(row["listener"], []).append(row)
    given: dict[int, int] = {}
    for stored in answers:
        given[stored["listener"]] = given.get(stored["listener"], 0) + 1
    asked = questions(study)
    out = []
    for person in listeners:
        who, done = person["id"], person["finished_at"]
        row = dict.fromkeys(people_columns(study)) | {
            name: person[name] for name in ("group", "number", "erased")
        }
        row |= {name: _clock(person[name]) for name in PEOPLE if name.endswith("_at")}
        row |= {
            "listener": who,
            "answers": given.get(who, 0),
            "code": identifiers.completion_code(who) if done and not person["erased"] else None,
            "minutes": round((done - person["started_at"]) / 60, 2) if done else None,
        }
        row |= {name: excluded[who][name] for name in ("excluded", "reason") if who in excluded}
        row |= {
            f"recruitment_{name}": value
            for name, value in recruited.get(who, {}).items()
            if f"recruitment_{name}" in row
        }
        if who in told:
            screens = design.screens(study, person["group"], person["number"])
            for said in told[who]:
                step = screens[said["position"]].step
                row |= {
                    asked[step, name][0]: value
                    for name, value in said["data"].items()
                    if (step, name) in asked
                }
        out.append(row)
    return out


def _clock(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
