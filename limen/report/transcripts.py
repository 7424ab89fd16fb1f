"""Transcripts compared with a reference word by word, with every difference marked by shape and by colour."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from limen.core.edits import Edits, alignment, edits
from limen.core.text import How, normalised
from limen.report.run import CellResult, component

NOTHING = Markup('<span class="muted">(nothing)</span>')


@dataclass(frozen=True)
class Compared:
    marked: Markup
    """The transcript with its differences from the reference."""
    errors: str
    """The number of wrong, missing and added words."""


def how_compared(cell: CellResult) -> How:
    """The normalisation that the word error rate of the run uses."""
    wer = next((m for m in map(component, cell.spec.get("metrics") or []) if m.get("name") == "wer"), {})
    return wer.get("normalise") if wer.get("normalise") in ("none", "words", "english") else "words"  # type: ignore[return-value]


def compare(reference: str, transcript: str, how: How = "words") -> Compared:
    a, b = _words(reference, how), _words(transcript, how)
    out: list[Markup] = []
    for operation, i, j in alignment([key for _, key in a], [key for _, key in b]):
        expected = "" if i is None else a[i][0]
        word = "" if j is None else b[j][0]
        if operation == "correct":
            out.append(escape(word))
        elif operation == "substitution":
            out.append(
                Markup(
                    '<span class="swap" title="“{0}” was transcribed as “{1}”"><del>{0}</del> '
                    "<ins>{1}</ins></span>"
                ).format(expected, word)
            )
        elif operation == "deletion":
            out.append(Markup('<del title="“{0}” is missing">{0}</del>').format(expected))
        else:
            out.append(Markup('<ins title="“{0}” was added">{0}</ins>').format(word))
    if not transcript.strip():
        out.insert(0, NOTHING)
    return Compared(
        Markup(" ").join(out) or escape(transcript),
        _errors(edits([key for _, key in a], [key for _, key in b])),
    )


def _words(text: str, how: How) -> list[tuple[str, str]]:
    """Each word in the form that is shown and in the form that is compared. A word that is compared as
    several ("twenty-five") is shown as several."""
    words: list[tuple[str, str]] = []
    for word in text.split():
        keys = normalised(word, how).split()
        if len(keys) == 1:
            words.append((word, keys[0]))
        elif keys:
            words += [(key, key) for key in keys]
        elif words:  # a dash between words is shown with the word before it
            words[-1] = (f"{words[-1][0]} {word}", words[-1][1])
    return words


def _errors(found: Edits) -> str:
    parts = ((found.substitutions, "wrong"), (found.deletions, "missing"), (found.insertions, "added"))
    return ", ".join(f"{count} {kind}" for count, kind in parts if count) or "no error"


def error_rate(references: list[str], transcripts: list[str], how: How = "words") -> float | None:
    """Word error rate of a set: all errors over all words."""
    tokens = [
        (normalised(a, how).split(), normalised(b, how).split())
        for a, b in zip(references, transcripts, strict=True)
    ]
    total = sum(len(a) for a, _ in tokens)
    return sum(edits(a, b).errors for a, b in tokens) / total if total else None


def targets(cell: CellResult) -> list[str | None]:
    """The target text of each sample; None if the attack has no target."""
    rows = cell.rows
    if "target" in rows:
        return [None if t is None else str(t) for t in rows["target"]]
    goal = component(cell.attack_spec.get("goal"))
    text = goal.get("text") if goal.get("name") == "transcript" and not cell.control else None
    return [text] * len(rows.get("id", []))


def align_words(
    cell: CellResult, label: str, clean: str, adversarial: str, target: str | None
) -> list[dict[str, Any]]:
    """One line per text of an example: what it is, the text with its differences marked, and its errors."""
    how = how_compared(cell)
    lines: list[dict[str, Any]] = [
        {"what": "reference", "text": escape(label) if label else NOTHING, "errors": ""}
    ]
    for what, reference, transcript in (
        ("clean transcript", label, clean),
        ("adversarial transcript", label, adversarial),
        ("against the target", target, adversarial),
    ):
        if reference is None:
            continue
        if what == "against the target":
            lines.insert(1, {"what": "target", "text": escape(reference), "errors": ""})
        found = compare(reference, transcript, how)
        lines.append({"what": what, "text": found.marked, "errors": found.errors})
    return lines
