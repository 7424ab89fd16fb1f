"""The results page of a listening study: one file without links to others. First the findings, then the
hypotheses, then the results of each trial type, excluded listeners, methods and data."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from limen.listening.analysis.columns import ANSWERS
from limen.listening.analysis.results import Results
from limen.report.blocks import (
    Block,
    Cell,
    Definitions,
    Folded,
    Group,
    Html,
    Page,
    Prose,
    Section,
    Subheading,
    Table,
)
from limen.report.blocks import Row as TableRow
from limen.report.formatting import duration, fmt, many
from limen.report.html import render, write_page
from limen.report.study import people
from limen.report.study import sentences as words
from limen.report.study.methods import OVER_LISTENERS_AND_ITEMS, SEVERAL_HYPOTHESES
from limen.report.study.section import StudySection, section_of
from limen.trials.base.findings import Row
from limen.trials.base.trial import title_of

SIMULATED = "SIMULATED ANSWERS"


def build_study(results: Results, rows: Sequence[Row], path: str | Path) -> Path:
    """Write the page of `analyse`'s results and return its path; `rows` are the answers they are computed
    from."""
    return write_page(Path(path), render(page_of(results, rows)))


def sentences(results: Results, rows: Sequence[Row]) -> list[str]:
    """The findings, as the top of the page shows them."""
    warning = words.simulated(results)
    sections = [section_of(result, results, rows) for result in results.trials]
    return [
        *([f"{SIMULATED}: {warning}"] if warning else []),
        words.participation(results),
        *(" ".join(section.sentences) for section in sections if section.sentences),
    ]


def page_of(results: Results, rows: Sequence[Row]) -> Page:
    found = [(result, section_of(result, results, rows)) for result in results.trials]
    dates = " to ".join(dict.fromkeys(d[:10] for d in (results.first, results.last) if d))
    name = Markup('<span class="id">{}</span>').format(results.study)
    trials = [
        Section(title_of(result.trial), section.blocks, anchor=f"trial-{k}")
        for k, (result, section) in enumerate(found, 1)
    ]
    hypotheses = [Prose(words.hypotheses(results.hypotheses)), people.hypotheses(results)]
    return Page(
        title=f"{'SIMULATED · ' if results.simulated else ''}{results.title} · Limen listening study",
        eyebrow=Markup("Limen listening study · {}{}").format(name, f" · {dates}" if dates else ""),
        heading=results.title,
        footer=f"Every number on this page is computed from {fmt(len(rows), 'n')} rows of answers. "
        "Intervals are 95\u202f% intervals over listeners and items unless a table says otherwise.",
        header=_header(results, [section for _, section in found]),
        sections=[
            *([Section("Hypotheses", hypotheses, anchor="hypotheses")] if results.hypotheses else []),
            *trials,
            Section("Excluded listeners", people.excluded(results), anchor="excluded"),
            Section("Listeners", _listeners(results), anchor="listeners"),
            Section("Methods", _methods_and_notes(results, [s for _, s in found]), anchor="methods"),
            Section("Data and citation", _data(results, rows), anchor="data"),
        ],
        style=Markup((Path(__file__).parent / "study.css").read_text(encoding="utf-8")),
    )


def _header(results: Results, sections: Sequence[StudySection]) -> list[Block]:
    """A warning about simulated answers, participation, a warning about the study file, and the findings."""
    out: list[Block] = []
    if warning := words.simulated(results):
        out.append(
            Html(
                Markup(
                    '<aside class="alarm simulated" aria-label="Simulated answers">'
                    "<p><strong>Simulated answers</strong></p><p>{}</p></aside>"
                ).format(warning)
            )
        )
    out.append(Prose(words.participation(results), "lede"))
    if alarm := _alarm(results):
        aside = '<aside class="alarm" aria-label="Warning"><p><strong>{}</strong> {}</p></aside>'
        out.append(Html(Markup(aside).format(*alarm)))
    findings = [" ".join(s.sentences) for s in sections if s.sentences] or ["No answer is analysed yet."]
    lines = Markup("").join(
        Markup("<li{}>{}</li>").format(Markup(' class="lead"') if k == 0 else "", text)
        for k, text in enumerate(findings)
    )
    return [*out, Html(Markup('<ul class="found" aria-label="Findings">{}</ul>').format(lines))]


def _listeners(results: Results) -> list[Block]:
    every = people.people(results)
    implausible = people.implausible(results)
    return [
        Prose(_playback(results)),
        people.times(results),
        *([implausible] if implausible.groups[0].rows else []),
        Folded("Every listener", [every], note=str(len(every.groups[0].rows))),
    ]


def _methods_and_notes(results: Results, sections: Sequence[StudySection]) -> list[Block]:
    methods = Definitions(list(_methods(results, sections).items()), style="methods")
    notes = [Prose(note) for note in results.notes]
    return [methods, *([Subheading("Not analysed"), *notes] if notes else [])]


def _data(results: Results, rows: Sequence[Row]) -> list[Block]:
    columns = [TableRow([Cell(name, style="id"), column.meaning]) for name, column in ANSWERS.items()]
    table = Table("", [], [Group(columns)], label="Columns", style="text dense")
    summary = Markup("Columns written by <code>limen listen export</code>")
    return [
        Definitions(_facts(results, rows)),
        Subheading("Citation"),
        Prose(words.cite(results)),
        Subheading("Columns of the table of answers"),
        Folded(summary, [table], note=f"{len(columns)} columns"),
    ]


def _methods(results: Results, sections: Sequence[StudySection]) -> dict[str, str]:
    """Methods that this page uses, each once."""
    out = dict(OVER_LISTENERS_AND_ITEMS)
    for section in sections:
        out |= section.methods
    return out | (SEVERAL_HYPOTHESES if results.hypotheses else {})


def _alarm(results: Results) -> tuple[str, str] | None:
    out = results.exclusions
    if out.same is False:
        return (
            "The study file was changed after the first answer.",
            f"Recorded: {str(out.recorded)[:16]}…, now: {out.fingerprint[:16]}…. Rules and hypotheses are no "
            "longer those fixed before the first answer.",
        )
    if out.listeners and not out.kept:
        return (
            "Every listener is excluded by the rules of the study file.",
            "There are no results; the reasons are given below.",
        )
    return None


def _playback(results: Results) -> str:
    p = results.playback
    if not p.trials:
        return "No screen with sounds was answered."
    rates = ", ".join(f"{rate} Hz ({n})" for rate, n in p.rates_hz) or "unknown"
    return (
        f"For {fmt(p.heard, 'n')} of {many(p.trials, 'answered screen')} with sounds "
        f"({fmt(p.heard / p.trials, '%')}) there is proof that every sound was played: the page decoded the "
        f"samples that were sent. Mean number of plays per screen: {fmt(p.plays, '1f')}. Sample rate of the "
        f"devices: {rates}."
    )


def _facts(results: Results, rows: Sequence[Row]) -> list[tuple[str, str | Markup]]:
    out = results.exclusions
    checked = {
        None: "was not recorded",
        True: "is the one recorded before the first answer",
        False: "is NOT the one recorded",
    }[out.same]
    minutes = [p.minutes for p in results.people if p.minutes is not None]
    return [
        ("study", results.study),
        ("fingerprint", f"{results.fingerprint[:16]}… {checked}"),
        ("rows", fmt(len(rows), "n")),
        ("first answer", results.first or "–"),
        ("last answer", results.last or "–"),
        ("listeners", f"{results.listeners} of {results.wanted} wanted"),
        ("median duration", duration(60 * sorted(minutes)[len(minutes) // 2]) if minutes else "–"),
        ("seed of the analysis", str(results.seed)),
    ]
