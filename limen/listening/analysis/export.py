"""Answers as a table, one row per answer (one per sound if a screen asks about each of its sounds), and its
files.

Screens are made again from the study file, so a row holds the condition of a slider although the page never
received it. Rows contain neither personal answers nor data from recruitment sites.
"""

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.core.errors import UserError, os_error_message
from limen.listening.analysis.columns import ANSWERS, factor_columns, trial_columns, write_codebook
from limen.listening.analysis.exclusions import by_listener, exclusions
from limen.listening.statistics.plausibility import implausible
from limen.listening.study import Study, clips_of
from limen.trials.base.columns import ExportColumn
from limen.trials.base.screen import Screen, Widget

PLAYED = ("plays", "switches", "played_s")
"""Facts about the playback of each sound."""
UNSAFE = ("=", "+", "-", "@", "\t", "\r")
"""Text that begins with one of these is a formula in a spreadsheet."""


def rows(
    answers: Sequence[Mapping[str, Any]], listeners: Sequence[Mapping[str, Any]], study: Study
) -> list[dict[str, Any]]:
    """Long format, by listener and position. `answers` and `listeners` are the results of the store's methods
    of these names."""
    from limen.listening.design import screens

    people = {person["id"]: person for person in listeners}
    planned: dict[Any, list[Screen]] = {}
    names, fingerprint, more = factor_columns(study), study.fingerprint(), trial_columns(study)
    factors = {item.id: {names[k]: v for k, v in item.factors.items()} for item in study.items}
    clips = clips_of(study.items)
    out: list[dict[str, Any]] = []
    for stored in sorted(answers, key=lambda a: (a["listener"], a["position"])):
        person = people[stored["listener"]]
        if person["id"] not in planned:
            planned[person["id"]] = screens(study, person["group"], person["number"])
        base: dict[str, Any] = dict.fromkeys([*ANSWERS, *more, *names.values()])
        base |= {
            "study": study.name,
            "fingerprint": fingerprint,
            "listener": person["id"],
            "group": person["group"],
            "number": person["number"],
            "finished": person["finished_at"] is not None,
            "simulated": bool(person.get("simulated")),
        }
        base["clip"] = clips.get(stored["facts"].get("item", ""))
        base |= {name: stored["facts"].get(name) for name in more}
        out += _of_answer(base, stored, _screen(planned[person["id"]], stored, study), factors)
    reasons, flags = exclusions(study, out).reasons(), implausible(by_listener(out))
    return [
        row
        | {
            "excluded": (listener := row["listener"]) in reasons,
            "reason": reasons.get(listener, ""),
            "implausible": flags[listener],
        }
        for row in out
    ]


def _screen(planned: Sequence[Screen], stored: Mapping[str, Any], study: Study) -> Screen:
    """The screen that was answered. The study file may have other rules and hypotheses since, but not other
    screens."""
    screen = planned[stored["position"]] if stored["position"] < len(planned) else None
    if screen is None or (screen.kind, screen.role) != (stored["kind"], stored["role"]):
        raise UserError(
            f"{study.name}: the answers do not match the study file (screen {stored['position'] + 1} of "
            f"listener {stored['listener']} was {stored['kind']}). Items or steps were changed after the "
            "first answer: restore the study file that listeners were given."
        )
    return screen


def _of_answer(
    base: dict[str, Any], stored: Mapping[str, Any], screen: Screen, factors: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    facts, truth, played = stored["facts"], stored["truth"] or {}, stored["playback"] or []
    answer: Mapping[str, Any] = {} if screen.personal else stored["answer"] or {}
    base = {**base, **factors.get(facts.get("item", ""), {})}
    base |= {name: stored[name] for name in ("position", "step", "kind", "role", "correct", "response_ms")}
    base |= {name: facts.get(name) for name in ("item", "condition", "reference", "axis", "strength")} | {
        "track": screen.track
    }
    base |= {
        "truth": next(iter(truth.values()))
        if len(truth) == 1
        else json.dumps(truth, ensure_ascii=False)
        if truth
        else facts.get("spoken"),
        "plays": sum(p["plays"] for p in played) if screen.sounds else None,
        "played_s": round(sum(p["played_s"] for p in played), 3) if screen.sounds else None,
        "switches": sum(p.get("switches", 0) for p in played) if screen.sounds else None,
        "over_limit": screen.over_limit([p["plays"] for p in played]) if screen.sounds else None,
        "playback": json.dumps({p["label"]: {name: p.get(name, 0) for name in PLAYED} for p in played})
        if played
        else None,
        "sounds_s": round(sum(p.get("length_s", 0.0) for p in played), 3) if played else None,
        "heard": heard(screen, played),
        "rate_hz": next((p["rate_hz"] for p in played), None),
        "received_at": datetime.fromtimestamp(stored["received_at"], UTC).isoformat(timespec="seconds"),
        "answer": json.dumps(answer, ensure_ascii=False, sort_keys=True) if answer else None,
    }
    base |= _read([w for w in screen.widgets if not w.each_sound], answer, screen)
    each = [w for w in screen.widgets if w.each_sound]
    if not each or not answer:
        yield base
        return
    for sound in (s for s in screen.sounds if s.rated):
        own_answers = {w.name: answer[w.name][sound.label] for w in each}
        yield base | _read(each, own_answers, screen) | {"sound": sound.label, "condition": sound.condition}


def heard(screen: Screen, played: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether there is proof that every sound was played; None if there are no sounds."""
    if not screen.sounds:
        return None
    proved = {p["label"] for p in played if p["proved"]}
    return proved >= {sound.label for sound in screen.sounds}


def _read(widgets: Sequence[Widget], answer: Mapping[str, Any], screen: Screen) -> dict[str, Any]:
    """Values of the widgets by column; of two of a kind the first, while the other is only in `answer`."""
    out: dict[str, Any] = {}
    for w in widgets:
        value = answer.get(w.name)
        if value is None:
            continue
        # numbers to choose from are a rating scale, unless one of them is the right answer
        scale = (
            w.kind == "choose"
            and not w.other
            and w.name not in screen.truth
            and all(_number(c.value) for c in w.choices)
        )
        if w.name == "confidence":
            out["confidence"] = value
        elif w.kind == "slide" or scale:
            out.setdefault("rating", float(value))
        else:
            out.setdefault("choice" if w.kind == "choose" else "text", value)
    labels = {sound.label: sound.condition for sound in screen.sounds}
    return out | ({"chosen": labels[out["choice"]] or None} if out.get("choice") in labels else {})


def _number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdigit()


def write(
    table: Sequence[Mapping[str, Any]],
    path: str | Path,
    declared: Mapping[str, ExportColumn],
    private: bool = False,
) -> Path:
    """Write rows atomically as .csv, .json, .jsonl or .parquet, and next to it a codebook with the meaning of
    each column.

    The columns are those that are `declared`, in this order. In CSV, text that a spreadsheet would interpret
    as a formula (it begins with = + - @, a tab or a return) gets a leading apostrophe. A `private` table is
    readable by its owner only.
    """
    path = Path(path)
    makers = {".csv": _csv, ".json": _json, ".jsonl": _jsonl, ".parquet": _parquet}
    if path.suffix.lower() not in makers:
        raise UserError(
            f"{path}: the name of a table must end in {', '.join(makers)}, got {path.suffix or 'no ending'}."
        )
    undeclared = {name for row in table for name in row} - set(declared)
    assert not undeclared, f"columns that no codebook would explain: {undeclared}"
    content = makers[path.suffix.lower()](table, declared)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077) if private else None
    try:
        write_atomic(path, content)
    finally:
        if before is not None:
            os.umask(before)
    try:
        write_codebook(path, declared)  # last, so that a full disk leaves no codebook without a table
    except OSError as error:
        raise UserError(f"{os_error_message(error)} The table itself, {path}, is complete.") from None
    return path


def safe(value: Any) -> Any:
    """The value as a cell of a CSV file that no spreadsheet interprets as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(UNSAFE) else value


def _csv(table: Sequence[Mapping[str, Any]], declared: Mapping[str, ExportColumn]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(declared))
    writer.writeheader()
    writer.writerows({name: safe(value) for name, value in row.items()} for row in table)
    return text.getvalue().encode("utf-8", errors="replace")


def _json(table: Sequence[Mapping[str, Any]], _: Mapping[str, ExportColumn]) -> bytes:
    return (json.dumps([dict(row) for row in table], indent=1, allow_nan=False) + "\n").encode()


def _jsonl(table: Sequence[Mapping[str, Any]], _: Mapping[str, ExportColumn]) -> bytes:
    return "".join(json.dumps(dict(row), allow_nan=False) + "\n" for row in table).encode()


def _parquet(table: Sequence[Mapping[str, Any]], declared: Mapping[str, ExportColumn]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = {}
    for name in declared:
        values = [row.get(name) for row in table]
        kinds = {type(v) for v in values if v is not None}
        # a factor may be text for one item and a number for another: then all values are text
        data[name] = (
            values
            if len(kinds) < 2 or kinds == {int, float}
            else [None if v is None else str(v) for v in values]
        )
    sink = io.BytesIO()
    pq.write_table(pa.table(data), sink)
    return sink.getvalue()
