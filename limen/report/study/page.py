"""The results page of a listening study: one file without links to others. First the findings, then the
hypotheses, then the results of each trial type, excluded listeners, methods and data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from limen.listening.analysis.columns import ANSWERS
from limen.listening.analysis.results import Results
from limen.report.formatting import duration, fmt, many
from limen.report.html import assets, environment, write_page
from limen.report.study import people
from limen.report.study import sentences as words
from limen.report.study.methods import OVER_LISTENERS_AND_ITEMS, SEVERAL_HYPOTHESES
from limen.report.study.section import StudySection, section_of
from limen.trials.base.trial import title_of

Rows = Sequence[Mapping[str, Any]]

SIMULATED = "SIMULATED ANSWERS"


def build_study(results: Results, rows: Rows, path: str | Path) -> Path:
    """Write the page of `analyse`'s results and return its path; `rows` are the answers they come from."""
    return write_page(Path(path), environment().get_template("study.html.j2").render(_context(results, rows)))


def sentences(results: Results, rows: Rows) -> list[str]:
    """The findings, as the top of the page shows them."""
    warning = words.simulated(results)
    sections = [section_of(result, results, rows) for result in results.trials]
    return [
        *([f"{SIMULATED}: {warning}"] if warning else []),
        words.participation(results),
        *(" ".join(section.sentences) for section in sections if section.sentences),
    ]


def _context(results: Results, rows: Rows) -> dict[str, Any]:
    sections = [section_of(result, results, rows) for result in results.trials]
    return {
        "name": results.study,
        "title": results.title,
        **assets(),
        "dates": " to ".join(dict.fromkeys(d[:10] for d in (results.first, results.last) if d)),
        "participation": words.participation(results),
        "alarm": _alarm(results),
        "simulated": words.simulated(results),
        "findings": [s.sentences for s in sections if s.sentences] or [["No answer is analysed yet."]],
        "hypotheses": people.hypotheses(results),
        "sections": [
            (f"trial-{k}", title_of(result.trial), section)
            for k, (result, section) in enumerate(zip(results.trials, sections, strict=True), 1)
        ],
        "excluded": people.excluded(results),
        "playback": _playback(results),
        "times": people.times(results),
        "implausible": people.implausible(results),
        "people": people.people(results),
        "methods": list(_methods(results, sections).items()),
        "notes": results.notes,
        "facts": _facts(results, rows),
        "cite": words.cite(results),
        "columns": [(name, column.meaning) for name, column in ANSWERS.items()],
        "count": fmt(len(rows), "n"),
    }


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


def _facts(results: Results, rows: Rows) -> list[tuple[str, str]]:
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
