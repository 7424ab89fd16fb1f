"""Participants: recruitment parameters, completion codes, times, demographics and comments. Personal data,
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
    personal: dict[int, list[Mapping[str, Any]]] = {}
    for row in store.personal():
        personal.setdefault(row["listener"], []).append(row)
    counts: dict[int, int] = {}
    for stored in answers:
        counts[stored["listener"]] = counts.get(stored["listener"], 0) + 1
    columns = questions(study)
    out = []
    for person in listeners:
        listener, done = person["id"], person["finished_at"]
        row = dict.fromkeys(people_columns(study)) | {
            name: person[name] for name in ("group", "number", "erased")
        }
        row |= {name: _clock(person[name]) for name in PEOPLE if name.endswith("_at")}
        row |= {
            "listener": listener,
            "answers": counts.get(listener, 0),
            "code": identifiers.completion_code(listener) if done and not person["erased"] else None,
            "minutes": round((done - person["started_at"]) / 60, 2) if done else None,
        }
        row |= {name: excluded[listener][name] for name in ("excluded", "reason") if listener in excluded}
        row |= {
            f"recruitment_{name}": value
            for name, value in recruited.get(listener, {}).items()
            if f"recruitment_{name}" in row
        }
        if listener in personal:
            screens = design.screens(study, person["group"], person["number"])
            for one in personal[listener]:
                step = screens[one["position"]].step
                row |= {
                    columns[step, name][0]: value
                    for name, value in one["data"].items()
                    if (step, name) in columns
                }
        out.append(row)
    return out


def _clock(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
