"""Every column of what `limen listen export` writes, declared once: tables and the codebooks beside them are
both made from here."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.listening import design
from limen.listening.study import Study
from limen.trials.base.screen import Screen


@dataclass(frozen=True)
class Column:
    meaning: str
    unit: str = ""
    values: str = ""
    """What may stand in it, parted by " | ", or a sentence in parentheses."""
    kind: str = "text"
    """text, number, whole, truth (true or false) or time."""


TIME = "UTC, ISO 8601"
ANSWERS: dict[str, Column] = {
    "study": Column("name of the study"),
    "fingerprint": Column("sha256 of the study file's content", values="(64 hexadecimal digits)"),
    "listener": Column("anonymous number of the listener", values="(from 1)", kind="whole"),
    "group": Column("group of the listener", values="(empty: the study has no groups)"),
    "number": Column(
        "counts the listeners of a group: the row of the Latin square", values="(from 0)", kind="whole"
    ),
    "finished": Column("whether the listener reached the end", kind="truth"),
    "simulated": Column("whether the listener was made up by `limen listen simulate`", kind="truth"),
    "position": Column("which screen of the listener", values="(from 0)", kind="whole"),
    "step": Column("which step of the study file", values="(from 0)", kind="whole"),
    "kind": Column("trial type"),
    "role": Column(
        "what the screen is for; only trials count in the results",
        values="page | check | teaching | trial | sentinel | catch",
    ),
    "item": Column("id of the item"),
    "clip": Column("the same for items that share a sound file: what results are generalised over"),
    "condition": Column("condition that was judged"),
    "reference": Column("condition that it was compared with, where there is one"),
    "sound": Column("label of the sound, where each is judged"),
    "axis": Column("degradation that was varied"),
    "track": Column("name of the adaptive measurement"),
    "strength": Column("strength of the degradation", "percent of the strongest", "(0 to 100)", "number"),
    "choice": Column("what was chosen", values="(other: and what was typed, where that is offered)"),
    "chosen": Column("condition of the sound that was chosen, where sounds are chosen"),
    "confidence": Column("how sure the listener was"),
    "rating": Column("number given", "points of the scale", kind="number"),
    "text": Column("what was typed"),
    "truth": Column("the right answer, where there is one; what was said, of a transcription"),
    "correct": Column("whether the answer is the right one; empty: there is no right one", kind="truth"),
    "response_ms": Column("time from showing the screen to the answer", "ms", "(from 0)", "number"),
    "plays": Column(
        "how often sounds of the screen were started, and gone round again; empty: none",
        values="(from 0)",
        kind="whole",
    ),
    "switches": Column(
        "how often the listener went on in another sound while one played", values="(from 0)", kind="whole"
    ),
    "over_limit": Column(
        "plays beyond the limit: of sounds that broke off before they were heard whole, or on another device",
        values="(from 0)",
        kind="whole",
    ),
    "played_s": Column("sound played on the screen; empty: it has none", "s", "(from 0)", "number"),
    "sounds_s": Column(
        "how long the sounds of the screen last, one after another; empty: it has none",
        "s",
        "(from 0)",
        "number",
    ),
    "playback": Column("plays, switches and played_s of each sound of the screen", values="(JSON)"),
    "heard": Column(
        "every sound was played and its decoded samples were those sent; empty: the screen has no sounds",
        kind="truth",
    ),
    "rate_hz": Column("sampling rate of the listener's device", "Hz", kind="number"),
    "received_at": Column("when the answer was stored", TIME, kind="time"),
    "answer": Column("the whole answer, by question", values="(JSON)"),
    "excluded": Column("whether a rule of the study file leaves this listener out", kind="truth"),
    "reason": Column("the first rule that does", values="(empty: none does)"),
    "implausible": Column(
        "what makes this listener's answers implausible, whether or not a rule leaves them out for it",
        values="(empty: nothing)",
    ),
}
"""Every row of answers has these and one for each factor of the items; a factor with one of these names is
called factor_NAME."""

JUDGMENTS: dict[str, Column] = {
    "reference": Column(
        "clip that was not degraded", values="(WAV file beside the table, named by its content)"
    ),
    "test": Column(
        "clip that was compared with it", values="(WAV file beside the table, named by its content)"
    ),
    "label": Column("whether the two were called different", values="0 | 1", kind="whole"),
    **{name: ANSWERS[name] for name in ("listener", "axis", "strength", "excluded", "item", "response_ms")},
}
"""Columns of judgments.tsv, in this order."""

PEOPLE: dict[str, Column] = {
    "listener": ANSWERS["listener"],
    "group": ANSWERS["group"],
    "number": replace(
        ANSWERS["number"],
        meaning="counts the listeners of a group; empty: it went to another before the first answer",
    ),
    "code": Column("completion code that was shown; empty: the listener has not finished, or was erased"),
    "erased": Column("whether what is personal was erased", kind="truth"),
    "started_at": Column("when the listener began", TIME, kind="time"),
    "placed_at": Column("when the first answer came that proves that a sound was heard", TIME, kind="time"),
    "finished_at": Column(
        "when the last answer was stored; empty: the listener has not finished", TIME, kind="time"
    ),
    "seen_at": Column("when the listener began, last fetched a sound or answered", TIME, kind="time"),
    "minutes": Column("from the beginning to the last answer", "min", "(from 0)", "number"),
    "answers": Column("how many answers are stored", values="(from 0)", kind="whole"),
    "excluded": ANSWERS["excluded"],
    "reason": ANSWERS["reason"],
}
"""Every row of people has these, one for each recruitment parameter and one for each personal question."""


EVENTS: dict[str, Column] = {
    "listener": ANSWERS["listener"],
    "at": Column("when the server was told", TIME, kind="time"),
    **{name: ANSWERS[name] for name in ("position", "step", "kind")},
    "event": Column(
        "what happened on the page: it was hidden, or shown again; a sound did not play, or could not be "
        "loaded",
        values="hidden | visible | sound.silent | sound.broken",
    ),
}
"""Columns of events: what happened while a screen was shown."""


def factor_columns(study: Study) -> dict[str, str]:
    """Factor -> its column."""
    names = dict.fromkeys(name for item in study.items for name in item.factors)
    return {name: f"factor_{name}" if name in ANSWERS else name for name in names}


def answer_columns(study: Study) -> dict[str, Column]:
    """The columns of a study's answers, factors after the condition, with the values that this study
    allows."""
    said = {
        "group": study.cells if study.cells != [""] else [],
        "kind": list(dict.fromkeys(str(step["name"]) for step in study.steps)),
    }
    fixed = {
        name: replace(c, values=" | ".join(said[name])) if said.get(name) else c
        for name, c in ANSWERS.items()
    }
    factors = {}
    for name, column in factor_columns(study).items():
        values = dict.fromkeys(_word(item.factors[name]) for item in study.items if name in item.factors)
        factors[column] = Column(f"factor {name} of the item", values=" | ".join(values))
    at = list(fixed).index("sound")
    return dict([*list(fixed.items())[:at], *factors.items(), *list(fixed.items())[at:]])


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def questions(study: Study) -> dict[tuple[int, str], tuple[str, Column]]:
    """(step, question) -> name and column of each personal question: comments, demographics_age; the second
    step of a sort counts on."""
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
            values = " | ".join(
                [c.value for c in w.choices] + (["(other: and what was typed)"] if w.other else [])
            )
            found[screen.step, w.name] = (
                f"{name}_{turn}" if turn > 1 else name,
                Column(w.question, values=values),
            )
    return found


def people_columns(study: Study) -> dict[str, Column]:
    recruited = {
        f"recruitment_{name}": Column(f"parameter {name} of the address that the listener came with")
        for name in study.recruitment.kept
    }
    return PEOPLE | recruited | dict(questions(study).values())


def codebook_path(table: Path) -> Path:
    """answers.csv -> answers.codebook.csv."""
    return table.with_name(f"{table.stem}.codebook.csv")


def codebook(declared: Mapping[str, Column]) -> bytes:
    """One row for each column of a table: name, meaning, unit, allowed values."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["column", "meaning", "unit", "values", "kind"])
    writer.writerows(
        [name, c.meaning, c.unit, c.values or ("true | false" if c.kind == "truth" else ""), c.kind]
        for name, c in declared.items()
    )
    return text.getvalue().encode("utf-8", errors="replace")


def write_codebook(table: Path, declared: Mapping[str, Column]) -> Path:
    """Write the codebook beside a table."""
    return write_atomic(codebook_path(table), codebook(declared))
