"""`limen listen export` and `analyze`: the answers of a study as tables and as a results page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from limen.cli.listen.study_arguments import (
    Database,
    Simulated,
    StudyPath,
    answer_rows,
    database_of,
    file_suffix,
    open_store,
    say,
    study_file,
)
from limen.core.atomic import write_atomic


def export(
    study: StudyPath,
    to: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File to write: .csv, .json, .jsonl or .parquet. Default: answers.csv, for simulated "
            "answers answers_simulated.csv.",
        ),
    ] = None,
    database: Database = None,
    simulated: Simulated = False,
    jnd: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also write the pairs of clips of same/different trials with their judgments, ready for "
            "training a metric.",
        ),
    ] = None,
    people: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write personal data: recruitment parameters, completion codes, times, demographics "
            "and comments of each listener.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write events on the pages of listeners: pages hidden and shown, sounds that did not "
            "play.",
        ),
    ] = None,
) -> None:
    """Write the answers as a table, one row each, and a codebook that explains its columns.

    The table shows which listeners are excluded and why. It contains no personal data; those are written with
    --people only.
    """
    from limen.listening.analysis.columns import EVENTS, answer_columns, codebook_path, people_columns
    from limen.listening.analysis.export import write
    from limen.listening.analysis.jnd import TABLE, jnd_table
    from limen.listening.analysis.people import people as people_rows
    from limen.listening.checks.targets import refuse_clashes, with_codebooks
    from limen.listening.server.events import page_events

    file = study_file(study)
    plan, rows, _ = answer_rows(file, database, simulated)
    to = to or Path(f"answers{file_suffix(rows)}.csv")
    tables = [(to, "rows", rows, answer_columns(plan))]
    with open_store(file, database, simulated) as (_, store):
        if people is not None:
            tables.append((people, "people, personal data", people_rows(store, plan), people_columns(plan)))
        if events is not None:
            tables.append((events, "events", page_events(store, plan), EVENTS))
    judgments = [] if jnd is None else [(jnd / TABLE, "judgments")]
    refuse_clashes(
        with_codebooks([*((path, what) for path, what, _, _ in tables), *judgments]),
        file,
        database_of(file, plan, database),
    )
    for path, what, table, columns in tables:
        write(table, path, columns, private=path == people)
        say(f"written: {path} ({len(table)} {what}), explained by {codebook_path(path).name}")
    if jnd is not None:
        path = jnd_table(rows, jnd, plan, file.parent)
        say(f"written: {path}, explained by {codebook_path(path).name}")


def analyze(
    study: StudyPath,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Page to write. Default: results.html in the folder of the study, for simulated answers "
            "results_simulated.html.",
        ),
    ] = None,
    database: Database = None,
    simulated: Simulated = False,
    seed: Annotated[int, typer.Option(help="Seed of bootstrap and Monte Carlo computations.")] = 0,
) -> None:
    """Analyse the answers and write a results page.

    Applies the exclusion rules, tests the hypotheses of the study file and writes one HTML page, with all its
    numbers in a JSON file next to it. docs/listening_analysis.md explains the numbers.
    """
    from limen.listening.analysis.analyse import analyse
    from limen.listening.checks.targets import refuse_clashes
    from limen.report.study.page import build_study, sentences

    file = study_file(study)
    plan, rows, recorded = answer_rows(file, database, simulated)
    to = to or file.with_name(f"results{file_suffix(rows)}.html")
    refuse_clashes(
        [(to, "the page"), (to.with_suffix(".json"), "its numbers")],
        file,
        database_of(file, plan, database),
    )
    results = analyse(plan, rows, seed=seed, recorded=recorded)
    page = build_study(results, rows, to)
    numbers = json.dumps(results.as_dict(), indent=1, ensure_ascii=False)
    write_atomic(page.with_suffix(".json"), numbers.encode())
    for line in sentences(results, rows):
        say(line)
    say(f"results: {page}")
