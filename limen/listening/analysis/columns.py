"""Columns of the tables that `limen listen export` writes, declared once for the tables and their codebooks.

Trial types may declare further columns (`columns`).
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.listening import design
from limen.listening.study import Study
from limen.trials.base.columns import ExportColumn
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type

TIME = "UTC, ISO 8601"
ANSWERS: dict[str, ExportColumn] = {
    "study": ExportColumn("name of the study"),
    "fingerprint": ExportColumn("sha256 of the study file's content", values="(64 hexadecimal digits)"),
    "listener": ExportColumn("anonymous number of the listener", values="(from 1)", kind="whole"),
    "group": ExportColumn("group of the listener", values="(empty: the study has no groups)"),
    "number": ExportColumn(
        "counts the listeners of a group: the row of the Latin square", values="(from 0)", kind="whole"
    ),
    "finished": ExportColumn("whether the listener reached the end", kind="truth"),
    "simulated": ExportColumn("whether the listener is simulated (`limen listen simulate`)", kind="truth"),
    "position": ExportColumn("index of the screen for this listener", values="(from 0)", kind="whole"),
    "step": ExportColumn("index of the step in the study file", values="(from 0)", kind="whole"),
    "kind": ExportColumn("trial type"),
    "role": ExportColumn(
        "purpose of the screen; only trials are analysed",
        values="page | check | teaching | trial | sentinel | catch",
    ),
    "item": ExportColumn("id of the item"),
    "clip": ExportColumn("the same for items that share a sound file; intervals generalise over clips"),
    "condition": ExportColumn("condition that was judged"),
    "reference": ExportColumn("condition that it was compared with, if any"),
    "sound": ExportColumn("label of the sound, if each sound is judged"),
    "axis": ExportColumn("degradation that was varied"),
    "track": ExportColumn("name of the adaptive measurement"),
    "strength": ExportColumn(
        "strength of the degradation", "percent of the strongest", "(0 to 100)", "number"
    ),
    "choice": ExportColumn("the choice", values="(other: and the text, for a free-text answer)"),
    "chosen": ExportColumn("condition of the chosen sound, if sounds are chosen"),
    "confidence": ExportColumn("how sure the listener was"),
    "rating": ExportColumn("rating", "points of the scale", kind="number"),
    "text": ExportColumn("typed text"),
    "truth": ExportColumn("the right answer, if any; for a transcription, the spoken text"),
    "correct": ExportColumn("whether the answer is right; empty: there is no right answer", kind="truth"),
    "response_ms": ExportColumn("time from showing the screen to the answer", "ms", "(from 0)", "number"),
    "plays": ExportColumn(
        "number of plays of all sounds, each repetition of a loop included; empty: there are no sounds",
        values="(from 0)",
        kind="whole",
    ),
    "switches": ExportColumn(
        "how often the listener switched to another sound while one was playing",
        values="(from 0)",
        kind="whole",
    ),
    "over_limit": ExportColumn(
        "plays beyond the limit: of sounds interrupted before their end, or on another device",
        values="(from 0)",
        kind="whole",
    ),
    "played_s": ExportColumn(
        "duration played on the screen; empty: there are no sounds", "s", "(from 0)", "number"
    ),
    "sounds_s": ExportColumn(
        "total duration of the sounds of the screen; empty: there are no sounds",
        "s",
        "(from 0)",
        "number",
    ),
    "playback": ExportColumn("plays, switches and played_s of each sound of the screen", values="(JSON)"),
    "heard": ExportColumn(
        "every sound was played, and its decoded samples were those sent; empty: there are no sounds",
        kind="truth",
    ),
    "rate_hz": ExportColumn("sample rate of the listener's device", "Hz", kind="number"),
    "received_at": ExportColumn("when the answer was stored", TIME, kind="time"),
    "answer": ExportColumn("the complete answer, by question", values="(JSON)"),
    "excluded": ExportColumn("whether a rule of the study file excludes this listener", kind="truth"),
    "reason": ExportColumn("the first rule that excludes this listener", values="(empty: none)"),
    "implausible": ExportColumn(
        "what makes this listener's answers implausible, whether or not a rule excludes the listener for it",
        values="(empty: nothing)",
    ),
}
"""Columns of every row of answers, in addition to those of trial types and one for each factor of the items;
a factor with one of these names is called factor_NAME."""

JUDGMENTS: dict[str, ExportColumn] = {
    "reference": ExportColumn(
        "clip that was not degraded", values="(WAV file next to the table, named by its content)"
    ),
    "test": ExportColumn(
        "clip that it was compared with", values="(WAV file next to the table, named by its content)"
    ),
    "label": ExportColumn("whether the listener answered “different”", values="0 | 1", kind="whole"),
    **{name: ANSWERS[name] for name in ("listener", "axis", "strength", "excluded", "item", "response_ms")},
}
"""Columns of judgments.tsv, in this order."""

PEOPLE: dict[str, ExportColumn] = {
    "listener": ANSWERS["listener"],
    "group": ANSWERS["group"],
    "number": replace(
        ANSWERS["number"],
        meaning="counts the listeners of a group; empty: given to another listener before the first answer",
    ),
    "code": ExportColumn(
        "completion code that was shown; empty: the listener has not finished, or was erased"
    ),
    "erased": ExportColumn("whether personal data was erased", kind="truth"),
    "started_at": ExportColumn("when the listener began", TIME, kind="time"),
    "placed_at": ExportColumn(
        "when the first answer was stored that proves that a sound was heard", TIME, kind="time"
    ),
    "finished_at": ExportColumn(
        "when the last answer was stored; empty: the listener has not finished", TIME, kind="time"
    ),
    "seen_at": ExportColumn("when the listener began, last fetched a sound or answered", TIME, kind="time"),
    "minutes": ExportColumn("time from the beginning to the last answer", "min", "(from 0)", "number"),
    "answers": ExportColumn("number of stored answers", values="(from 0)", kind="whole"),
    "excluded": ANSWERS["excluded"],
    "reason": ANSWERS["reason"],
}
"""Columns of every row of people, in addition to one for each recruitment parameter and personal question."""


EVENTS: dict[str, ExportColumn] = {
    "listener": ANSWERS["listener"],
    "at": ExportColumn("when the server received it", TIME, kind="time"),
    **{name: ANSWERS[name] for name in ("position", "step", "kind")},
    "event": ExportColumn(
        "what happened on the page: it was hidden, or shown again; a sound was not played, or could not be "
        "loaded",
        values="hidden | visible | sound.silent | sound.broken",
    ),
}
"""Columns of events while a screen was shown."""


def factor_columns(study: Study) -> dict[str, str]:
    """Factor -> its column."""
    names = dict.fromkeys(name for item in study.items for name in item.factors)
    taken = ANSWERS.keys() | trial_columns(study).keys()
    return {name: f"factor_{name}" if name in taken else name for name in names}


def trial_columns(study: Study) -> dict[str, ExportColumn]:
    """Columns that the trial types of a study add."""
    columns: dict[str, ExportColumn] = {}
    for step in study.steps:
        columns |= trial_type(step["name"]).columns
    return {name: column for name, column in columns.items() if name not in ANSWERS}


def answer_columns(study: Study) -> dict[str, ExportColumn]:
    """Columns of the answers to a study, factors after the condition, with the values that this study
    allows."""
    allowed = {
        "group": study.cells if study.cells != [""] else [],
        "kind": list(dict.fromkeys(str(step["name"]) for step in study.steps)),
    }
    fixed = {
        name: replace(c, values=" | ".join(allowed[name])) if allowed.get(name) else c
        for name, c in ANSWERS.items()
    }
    factors = {}
    for name, column in factor_columns(study).items():
        values = dict.fromkeys(_word(item.factors[name]) for item in study.items if name in item.factors)
        factors[column] = ExportColumn(f"factor {name} of the item", values=" | ".join(values))
    at = list(fixed).index("sound")
    more = [*factors.items(), *trial_columns(study).items()]
    return dict([*list(fixed.items())[:at], *more, *list(fixed.items())[at:]])


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def questions(study: Study) -> dict[tuple[int, str], tuple[str, ExportColumn]]:
    """(step, question) -> name and column of each personal question: comments, demographics_age; a second
    step of the same type gets a number."""
    personal: list[Screen] = [
        s for group in study.cells for s in design.screens(study, group, 0) if s.personal
    ]
    steps = {
        kind: list(dict.fromkeys(s.step for s in personal if s.kind == kind))
        for kind in {s.kind for s in personal}
    }
    found = {}
    for screen in personal:
        turn = steps[screen.kind].index(screen.step) + 1
        for w in screen.widgets:
            name = screen.kind if w.name == screen.kind else f"{screen.kind}_{w.name}"
            values = " | ".join([c.value for c in w.choices] + (["(other: and the text)"] if w.other else []))
            found[screen.step, w.name] = (
                f"{name}_{turn}" if turn > 1 else name,
                ExportColumn(w.question, values=values),
            )
    return found


def people_columns(study: Study) -> dict[str, ExportColumn]:
    recruited = {
        f"recruitment_{name}": ExportColumn(f"parameter {name} of the address that the listener opened")
        for name in study.recruitment.kept
    }
    return PEOPLE | recruited | dict(questions(study).values())


def codebook_path(table: Path) -> Path:
    """answers.csv -> answers.codebook.csv."""
    return table.with_name(f"{table.stem}.codebook.csv")


def codebook(declared: Mapping[str, ExportColumn]) -> bytes:
    """One row for each column of a table: name, meaning, unit, allowed values."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["column", "meaning", "unit", "values", "kind"])
    writer.writerows(
        [name, c.meaning, c.unit, c.values or ("true | false" if c.kind == "truth" else ""), c.kind]
        for name, c in declared.items()
    )
    return text.getvalue().encode("utf-8", errors="replace")


def write_codebook(table: Path, declared: Mapping[str, ExportColumn]) -> Path:
    """Write the codebook of a table next to it."""
    return write_atomic(codebook_path(table), codebook(declared))
