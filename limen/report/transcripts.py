"""What was said and what was heard, word by word, with every difference marked by shape as well as by
colour."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from limen.core.edits import Edits, alignment, edits
from limen.core.text import How, normalised
from limen.report.formatting import fmt, many
from limen.report.run import CellResult, component, number

MOST_ROWS = 20
"""Rows of the table of each cell; all of them are in rows.parquet."""
NOTHING = Markup('<span class="muted">(nothing)</span>')


@dataclass(frozen=True)
class Heard:
    marked: Markup
    """The transcript with its differences from the reference."""
    errors: str
    """How many words are wrong, left out, added."""


def how_compared(cell: CellResult) -> How:
    """How the run's word error rate compares texts."""
    asked = next((m for m in map(component, cell.spec.get("metrics") or []) if m.get("name") == "wer"), {})
    return asked.get("normalise") if asked.get("normalise") in ("none", "words", "english") else "words"  # type: ignore[return-value]


def compare(reference: str, heard: str, how: How = "words") -> Heard:
    a, b = _words(reference, how), _words(heard, how)
    out: list[Markup] = []
    for operation, i, j in alignment([key for _, key in a], [key for _, key in b]):
        said = "" if i is None else a[i][0]
        word = "" if j is None else b[j][0]
        if operation == "correct":
            out.append(escape(word))
        elif operation == "substitution":
            out.append(
                Markup(
                    '<span class="swap" title="“{0}” was heard as “{1}”"><del>{0}</del> <ins>{1}</ins></span>'
                ).format(said, word)
            )
        elif operation == "deletion":
            out.append(Markup('<del title="“{0}” was left out">{0}</del>').format(said))
        else:
            out.append(Markup('<ins title="“{0}” was added">{0}</ins>').format(word))
    if not heard.strip():
        out.insert(0, NOTHING)
    return Heard(
        Markup(" ").join(out) or escape(heard), _errors(edits([key for _, key in a], [key for _, key in b]))
    )


def _words(text: str, how: How) -> list[tuple[str, str]]:
    """Each word as it is shown and as it is compared. One that is compared as several ("twenty-five") is
    shown as these."""
    words: list[tuple[str, str]] = []
    for word in text.split():
        keys = normalised(word, how).split()
        if len(keys) == 1:
            words.append((word, keys[0]))
        elif keys:
            words += [(key, key) for key in keys]
        elif words:  # a dash between words belongs to the one before it
            words[-1] = (f"{words[-1][0]} {word}", words[-1][1])
    return words


def _errors(found: Edits) -> str:
    parts = ((found.substitutions, "wrong"), (found.deletions, "left out"), (found.insertions, "added"))
    return ", ".join(f"{count} {kind}" for count, kind in parts if count) or "no error"


def error_rate(references: list[str], heard: list[str], how: How = "words") -> float | None:
    """Word error rate of a whole set: all errors over all words."""
    tokens = [
        (normalised(a, how).split(), normalised(b, how).split())
        for a, b in zip(references, heard, strict=True)
    ]
    total = sum(len(a) for a, _ in tokens)
    return sum(edits(a, b).errors for a, b in tokens) / total if total else None


def targets(cell: CellResult) -> list[str | None]:
    """The sentence the attacker wants of each sample; None where it wants none in particular."""
    rows = cell.rows
    if "target" in rows:
        return [None if t is None else str(t) for t in rows["target"]]
    goal = component(cell.attack_spec.get("goal"))
    text = goal.get("text") if goal.get("name") == "transcript" and not cell.control else None
    return [text] * len(rows.get("id", []))


def align_words(
    cell: CellResult, label: str, clean: str, adversarial: str, target: str | None
) -> list[dict[str, Any]]:
    """One line per text of an example: what it is, the text, what is wrong with it."""
    how = how_compared(cell)
    lines: list[dict[str, Any]] = [
        {"what": "said", "text": escape(label) if label else NOTHING, "errors": ""}
    ]
    for what, reference, heard in (
        ("heard clean", label, clean),
        ("heard adversarial", label, adversarial),
        ("against the target", target, adversarial),
    ):
        if reference is None:
            continue
        if what == "against the target":
            lines.insert(1, {"what": "target", "text": escape(reference), "errors": ""})
        found = compare(reference, heard, how)
        lines.append({"what": what, "text": found.marked, "errors": found.errors})
    return lines


def transcript_table(cell: CellResult) -> dict[str, Any] | None:
    """The first samples of a cell; a targeted attack is marked against its target, any other against the
    truth."""
    rows = cell.rows
    count = len(rows.get("id", []))
    if not count:
        return None
    how, wanted = how_compared(cell), targets(cell)
    has = [
        column for column in ("wer", "snr_db", "success") if any(v is not None for v in rows.get(column, []))
    ]
    aimed = any(t is not None for t in wanted)
    text = lambda column, i: "" if rows.get(column, [None] * count)[i] is None else str(rows[column][i])
    lines = []
    for i in range(min(MOST_ROWS, count)):
        target, label = wanted[i], text("label", i)
        lines.append(
            {
                "id": text("id", i),
                "victim": text("victim", i),
                "label": label,
                "target": target or "",
                "clean": compare(label, text("clean_prediction", i), how).marked,
                "adversarial": compare(
                    label if target is None else target, text("adversarial_prediction", i), how
                ).marked,
                "numbers": [
                    _cell(column, rows[column][i], bool(rows.get("already", [False] * count)[i]))
                    for column in has
                ],
            }
        )
    headings = {"wer": "WER", "snr_db": "SNR, dB", "success": "Success"}
    return {
        "rows": lines,
        "aimed": aimed,
        "victims": "victim" in rows,
        "headings": [headings[c] for c in has],
        "shown": f"{'first ' if count > MOST_ROWS else ''}{len(lines)} of {many(count, 'row')}",
    }


def _cell(column: str, value: Any, already: bool) -> dict[str, Any]:
    """A number as written, and what it is sorted by; what has no value comes last. A sample at the goal
    before can be no success."""
    if column == "success":
        return {
            "text": "yes" if value else "before" if already else "no",
            "sort": int(bool(value)),
            "flag": bool(value),
        }
    known = number(value)
    return {
        "text": fmt(value, "%" if column == "wer" else "1f"),
        "sort": "" if known is None else known,
        "flag": False,
    }
