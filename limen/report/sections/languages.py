"""Clips that a multilingual recogniser takes for another language: figure 5.3 of Olivier 2023."""

import re
from collections import Counter
from dataclasses import dataclass

from limen.report.blocks import Figure, Section, plain_table
from limen.report.formatting import DASH, fmt, place
from limen.report.parts import Part
from limen.report.places import facet_name
from limen.report.run import CellResult, number
from limen.report.svg.dots import Dots, dot_plot
from limen.report.svg.lines import legend
from limen.report.transcripts import error_rate, how_compared

CODE = re.compile(r"([a-z]{2,3})[/_\-:]")
"""A language at the beginning of an id, such as it/0017, if the rows do not name it."""
HEADINGS = [
    ("Cell", ""),
    ("True language", ""),
    ("n", "samples"),
    ("Detected clean", "share whose language the model detects if nothing is changed"),
    (
        "Flipped",
        "share detected as the target language (– for clips in that language); as any wrong language if the "
        "attack has no target language",
    ),
    ("Mostly detected as", "the language detected most often under attack"),
    ("WER clean", "all errors over all words"),
    ("WER attacked", "all errors over all words"),
]


@dataclass(frozen=True)
class Group:
    """The samples of one cell in one true language."""

    language: str
    n: int
    known: int
    """Samples whose language the model detects if nothing is changed."""
    flipped: int | None
    """Samples detected as the target language under attack; if the attack has no target language, as any but
    the true one. None if the true language is the target."""
    detected: str
    """The language detected most often under attack, and its share."""
    clean_wer: float | None
    wer: float | None


def languages(part: Part) -> Section | None:
    cells = [c for c in part.cells if not c.curve and not c.victims and "adversarial_language" in c.rows]
    shown = [(c, groups) for c in cells if (groups := _groups(c))]
    rows = [_row(c, group) for c, groups in shown if c.attack != "none" for group in groups]
    if not rows:
        return None
    caption = "A clip that the model detects as another language is transcribed in that language."
    table = plain_table("Language confusion, by true language", HEADINGS, rows, caption, names=2)
    return Section(blocks=[table, _figure(shown)], order=90)


def _row(cell: CellResult, group: Group) -> list[str]:
    return [
        place(cell),
        group.language,
        fmt(group.n, "n"),
        fmt(group.known / group.n, "%"),
        DASH if group.flipped is None else fmt(group.flipped / group.n, "%"),
        group.detected,
        fmt(group.clean_wer, "%"),
        fmt(group.wer, "%"),
    ]


def _groups(cell: CellResult) -> list[Group]:
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
    """Error rate of some rows, from their counts or, without these, from their texts."""
    errors, words = cell.values(f"{kind}word_errors"), cell.values("words")
    counts = [(errors[i], words[i]) for i in at] if errors and words else []
    if counts and all(e is not None and w is not None for e, w in counts):
        total = sum(w or 0.0 for _, w in counts)
        return number(sum(e or 0.0 for e, _ in counts) / total) if total else None
    texts = cell.rows.get(f"{kind or 'adversarial_'}prediction", [])
    labels = cell.rows.get("label", [])
    return (
        error_rate([str(labels[i]) for i in at], [str(texts[i] or "") for i in at], how_compared(cell))
        if texts and labels
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
        heading = facet_name(net, defense)
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
        "One row per spoken language, one mark per attack.",
        panels,
        key,
    )


def _name(cell: CellResult) -> str:
    target = cell.goal.get("target") if cell.goal["name"] == "language" and not cell.control else None
    varied = "".join(f", {k.rsplit('.', 1)[-1]} {v}" for k, v in cell.variable.items() if v != target)
    return f"{cell.attack}{f' to {target}' if target else ''}{varied}"
