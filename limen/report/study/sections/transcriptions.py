"""Transcripts: word error rates and the most frequent mistakes."""

from limen.listening.analysis.result_types import Transcriptions
from limen.report.blocks import Table
from limen.report.formatting import listed, many
from limen.report.study.section import Context, StudySection
from limen.report.study.sentences import percent_interval
from limen.report.study.tables import scope, table, where_cells

METHODS = {
    "Transcription": "Share of answers that are right word for word, and all word errors divided by all "
    "words spoken (as the mean of each answer’s contribution to this ratio), both over listeners and items."
}


def transcriptions(result: Transcriptions, context: Context) -> StudySection:
    return StudySection(_sentences(result, context.title), _tables(result), METHODS)


def _sentences(result: Transcriptions, title: str) -> list[str]:
    overall, *_ = result.cells
    shown = listed(
        [f"{c.where} {percent_interval(c.wer)}" for c in result.cells if c.where.keys == ("condition",)]
    )
    return [
        f"{title}: word error rate {percent_interval(overall.wer)} ({many(overall.n, 'answer')})"
        + (f"; by condition: {shown}." if shown else ".")
    ]


def _tables(result: Transcriptions) -> list[Table]:
    rows = [
        [*where_cells(c.where), c.n, percent_interval(c.exact), percent_interval(c.wer)] for c in result.cells
    ]
    headings = [
        ("By", ""),
        ("Value", ""),
        ("n", ""),
        ("Word for word", "95 % interval in brackets"),
        ("Word error rate", "95 % interval in brackets"),
    ]
    estimates = [(str(c.where), e) for c in result.cells for e in (c.exact, c.wer)]
    caption = f"Compared in lower case, only letters, digits and apostrophes. {scope(estimates, 'Intervals')}"
    out = [table("Transcripts", headings, rows, caption, names=2)]
    if result.mistakes:
        mistakes = [list(mistake) for mistake in result.mistakes]
        out.append(
            table("Most frequent mistakes", [("Spoken", ""), ("Typed", ""), ("Count", "")], mistakes, names=2)
        )
    return out
