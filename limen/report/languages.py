"""Language confusion: what becomes of clips in each true language when the model takes them for another,
figure 5.3 of Olivier 2023."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from limen.report.figures import Figure
from limen.report.formatting import DASH, fmt, place
from limen.report.recognisers import Table
from limen.report.run import CellResult, number
from limen.report.svg.dots import Dots, dot_plot
from limen.report.svg.lines import legend
from limen.report.transcripts import error_rate, how_compared

CODE = re.compile(r"([a-z]{2,3})[/_\-:]")
"""A language at the beginning of an id, such as it/0017, where the rows do not name it."""


@dataclass(frozen=True)
class Group:
    """The samples of one cell that are in one true language."""

    language: str
    n: int
    known: int
    """How many the model takes for what they are while clean."""
    flipped: int | None
    """How many it takes for the target under attack; where the attack names no language, for any but the true
    one. None if the true language is the target."""
    heard_as: str
    clean_wer: float | None
    wer: float | None


def languages(cells: Sequence[CellResult]) -> tuple[Table, Figure] | None:
    shown = [
        (c, groups(c)) for c in cells if not c.curve and not c.victims and "adversarial_language" in c.rows
    ]
    shown = [(c, found) for c, found in shown if found]
    if not shown:
        return None
    rows = [
        [
            place(cell),
            g.language,
            fmt(g.n, "n"),
            fmt(g.known / g.n, "%"),
            DASH if g.flipped is None else fmt(g.flipped / g.n, "%"),
            g.heard_as,
            fmt(g.clean_wer, "%"),
            fmt(g.wer, "%"),
        ]
        for cell, found in shown
        for g in found
        if cell.attack != "none"
    ]
    if not rows:
        return None
    headings = [
        ("CellResult", ""),
        ("True language", ""),
        ("n", "samples"),
        ("Known clean", "share whose language the model detects while nothing is changed"),
        (
            "Flipped",
            "share taken for the attacker’s language (– where it is the true one); for any wrong language "
            "where the attacker names none",
        ),
        ("Mostly taken for", "the language detected most often under attack"),
        ("WER clean", "all errors over all words"),
        ("WER attacked", "all errors over all words"),
    ]
    caption = "A clip that the model takes for another language is written down in that language."
    return Table("Language confusion, by true language", caption, headings, rows, names=2), _figure(shown)


def groups(cell: CellResult) -> list[Group]:
    """One per true language, in the order in which they first appear."""
    rows = cell.rows
    truths = _true_languages(cell)
    target = cell.goal.get("target") if cell.goal["name"] == "language" and not cell.control else None
    out = []
    for language in dict.fromkeys(t for t in truths if t):
        at = [i for i, t in enumerate(truths) if t == language]
        attacked = [rows["adversarial_language"][i] for i in at]
        top, count = Counter(attacked).most_common(1)[0]
        out.append(
            Group(
                language,
                len(at),
                sum(rows["clean_language"][i] == language for i in at) if "clean_language" in rows else 0,
                None
                if target == language
                else sum(a == target if target else a != language for a in attacked),
                f"{top} ({fmt(count / len(at), '%')})",
                _wer(cell, at, "clean_"),
                _wer(cell, at, ""),
            )
        )
    return out


def _true_languages(cell: CellResult) -> list[str | None]:
    rows = cell.rows
    if any(rows.get("language", [])):
        return [None if v is None else str(v) for v in rows["language"]]
    seen = {str(v) for column in ("clean_language", "adversarial_language") for v in rows.get(column, [])}
    found = [CODE.match(str(i)) for i in rows.get("id", [])]
    return [m[1] if m and m[1] in seen else None for m in found]


def _wer(cell: CellResult, at: list[int], kind: str) -> float | None:
    """Error rate of some rows: from their counts, else from their texts."""
    errors, words = cell.values(f"{kind}word_errors"), cell.values("words")
    counts = [(errors[i], words[i]) for i in at] if errors and words else []
    if counts and all(e is not None and w is not None for e, w in counts):
        total = sum(w or 0.0 for _, w in counts)
        return number(sum(e or 0.0 for e, _ in counts) / total) if total else None
    said = cell.rows.get(f"{kind or 'adversarial_'}prediction", [])
    labels = cell.rows.get("label", [])
    return (
        error_rate([str(labels[i]) for i in at], [str(said[i] or "") for i in at], how_compared(cell))
        if said and labels
        else None
    )


def _figure(shown: list[tuple[CellResult, list[Group]]]) -> Figure:
    """One panel per net and defence: a row per true language, a mark per attack."""
    panels = []
    attacks = list(dict.fromkeys(_name(c) for c, _ in shown if c.attack != "none"))
    for net, defense in dict.fromkeys((c.net, c.defense) for c, _ in shown):
        here = [
            (c, found) for c, found in shown if (c.net, c.defense) == (net, defense) and c.attack != "none"
        ]
        names = list(dict.fromkeys(g.language for _, found in here for g in found))
        clean = {g.language: g.clean_wer for _, found in here for g in found}
        dots = [Dots("clean", [clean.get(n) for n in names], 0)]
        for cell, found in here:
            by = {g.language: g.wer for g in found}
            dots.append(Dots(_name(cell), [by.get(n) for n in names], 1 + attacks.index(_name(cell))))
        heading = f"{net}, {'undefended' if defense == 'none' else defense}"
        panels.append(
            (
                heading,
                dot_plot(
                    names,
                    dots,
                    title=f"Word error rate by true language: {heading}",
                    x_label="Word error rate, %",
                ),
            )
        )
    key = legend([("clean", 0), *((name, 1 + k) for k, name in enumerate(attacks))])
    return Figure(
        "Word error rate by true language",
        "One row per language that was spoken, one mark per attack.",
        panels,
        key,
    )


def _name(cell: CellResult) -> str:
    target = cell.goal.get("target") if cell.goal["name"] == "language" and not cell.control else None
    varied = "".join(f", {k.rsplit('.', 1)[-1]} {v}" for k, v in cell.variable.items() if v != target)
    return f"{cell.attack}{f' to {target}' if target else ''}{varied}"
