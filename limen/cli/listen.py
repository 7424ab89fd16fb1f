"""The commands `limen listen ...`: a study from its file to its results."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from limen.core.atomic import write_atomic
from limen.core.errors import UserError, missing_package
from limen.listening.statistics.assumptions import ICC, ITEM_SD

if TYPE_CHECKING:
    from limen.listening.server.store import Store
    from limen.listening.study import Study

app = typer.Typer(
    no_args_is_help=True, help="Listening studies: write, check, serve, watch, export and analyse one."
)
out = Console(highlight=False)

SHORTEST_TOKEN = 16
Place = Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of the study, or its study.yaml.")]
Database = Annotated[
    str | None,
    typer.Option(
        envvar="LIMEN_DATABASE",
        help="Where answers are kept: sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME. Default: "
        "NAME.db beside the study file.",
    ),
]

SimulatedOnes = Annotated[
    bool,
    typer.Option(
        "--simulated",
        help="Take the simulated answers (simulated.db beside the study file), not those of people.",
    ),
]


@app.command()
def new(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="Folder to write: study.yaml, items.csv, sources.csv and audio/."
        ),
    ],
    template: Annotated[str, typer.Option(help="What kind of study; `--template help` lists them.")] = "abx",
    run: Annotated[
        Path | None,
        typer.Option("--from", help="Run folder whose clips are heard, for example runs/demo-..."),
    ] = None,
    attack: Annotated[
        str | None, typer.Option(help="With --from: only clips of this attack, as labelled in the run.")
    ] = None,
    value: Annotated[
        str | None, typer.Option(help='With --from a sweep: only clips at this value, as "eps 0.05".')
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the choice of clips and of the study. Default: one that cannot be guessed, as "
            "answers follow from it."
        ),
    ] = None,
) -> None:
    """Write a study that can be served at once: a commented study file with its audio, from a template and,
    with --from, a run."""
    from limen.listening.new import new_study, templates
    from limen.listening.study import read_study

    if template == "help":
        for name, about in templates().items():
            out.print(f"  {name:<20} {about}", markup=False)
        return
    path = new_study(study, template, run, attack, seed, value)
    out.print(f"written: {path}", markup=False, soft_wrap=True)
    if code := read_study(path).recruitment.code:
        out.print(f"completion code: {_told_code(code)}", markup=False, soft_wrap=True)
    out.print(f"next: limen listen check {study} | limen listen serve {study}", markup=False, soft_wrap=True)


@app.command()
def check(
    place: Place,
    icc: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Planned with: correlation of two answers of one listener."),
    ] = ICC,
    item_sd: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=3.0,
            help="Planned with: spread between items, in log odds of a right answer or of a rating's spread.",
        ),
    ] = ITEM_SD,
) -> None:
    """Look for what would spoil the study: files, rates, loudness, clipping, balance, conditions that a word,
    speaker, loudness, length, order or single clip gives away, pairs that come back, length, number of
    listeners. Exit code 2 if there are errors."""
    from limen.listening.checks.check import check_study

    findings = check_study(_file(place), icc, item_sd)
    colours = {"error": "red", "warning": "yellow", "note": ""}
    for finding in findings:
        out.print(
            f"{finding.level:<8}{finding.text}", style=colours[finding.level], markup=False, soft_wrap=True
        )
    if any(f.level == "error" for f in findings):
        raise typer.Exit(2)


@app.command()
def serve(
    place: Place,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for everybody.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    database: Database = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="LIMEN_ADMIN_TOKEN", help="Opens /admin. Default: one of the database's own."),
    ] = None,
    per_address: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many may take part at once from one address: give the size of a classroom or "
            "laboratory that shares one. Default: a tenth of the study's listeners, at least 3.",
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            min=1,
            help="Minutes without an answer or a sound fetched, after which a listener's place goes to "
            "another.",
        ),
    ] = 60,
    begun: Annotated[
        float,
        typer.Option(
            min=0.1, help="The same of one who has heard nothing yet: minutes after which they count as left."
        ),
    ] = 10,
) -> None:
    """Serve the study to listeners until Ctrl-C. Stopping, a crash or a restart loses no answer that a
    listener saw stored."""
    file = _file(place)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(
            f"--token: got {len(token)} characters, expected at least {SHORTEST_TOKEN}: anybody may try one "
            "at /admin. Without the option the database has a long one of its own."
        )
    _package("uvicorn")
    from limen.listening.checks.check import check_study
    from limen.listening.server.app import serve as run
    from limen.listening.server.guard import Limits

    if errors := [f.text for f in check_study(file) if f.level == "error"]:
        raise UserError(f"{file} cannot be served:\n" + "\n".join(errors))
    shown = f"http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{port}"

    def announce(site: Any) -> None:
        out.print(f"listeners: {shown}/", markup=False, soft_wrap=True)
        out.print(f"progress:  {shown}/admin  (token: {site.state.token})", markup=False, soft_wrap=True)
        sessions = site.state.sessions
        own = "each listener is shown one of their own; `limen listen export --people FILE` lists them"
        code = own if sessions.study.recruitment.codes == "listener" else _told_code(sessions.keys.code(0))
        out.print(f"completion code: {code}", markup=False, soft_wrap=True)
        if trouble := sessions.store.trouble():
            out.print(trouble, style="red", markup=False, soft_wrap=True)

    run(
        file,
        database,
        host=host,
        port=port,
        announce=announce,
        token=token,
        patience_min=patience,
        begun_min=begun,
        limits=Limits(begin_burst=per_address),
    )


@app.command()
def simulate(
    place: Place,
    listeners: Annotated[
        int | None, typer.Option(min=1, help="How many; default: as many as the study wants.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the listeners.")] = 0,
    database: Database = None,
) -> None:
    """Let simulated listeners take the study, into simulated.db beside it, in place of earlier ones: every
    page, every rule and the results can be tried."""
    from limen.listening.simulation.simulate import remove_simulated
    from limen.listening.simulation.simulate import simulate as run
    from limen.listening.study import read_study

    file = _file(place)
    count = listeners or read_study(file).listeners
    if database is None:
        remove_simulated(file)
    took = run(file, count, seed=seed, database_url=database)
    where = f"--database {database}" if database else "--simulated"
    out.print(
        f"{len(took)} simulated listeners finished. Results: limen listen analyze {place} {where}",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def monitor(place: Place, database: Database = None, simulated: SimulatedOnes = False) -> None:
    """How far the study is: listeners and answers by group, and which questions are answered already (tests
    that hold at any time)."""
    from limen.listening.analysis.export import rows
    from limen.listening.server.interim import interim
    from limen.listening.server.seats import STATES

    with _store(_file(place), database, simulated) as (study, store):
        trouble, progress = store.trouble(), store.progress()
        table_of_answers = rows(store.answers(), store.listeners(), study)
        found = interim(study, table_of_answers)
    if any(row["simulated"] for row in table_of_answers):
        out.print("SIMULATED ANSWERS", style="bold red")
    table = Table(box=None, header_style="bold")
    for name in ("group", *STATES):
        table.add_column(name, justify="left" if name == "group" else "right")
    for group, counts in progress["groups"].items():
        table.add_row(group or "all", *(str(counts[name]) for name in STATES))
    out.print(table)
    if trouble:
        out.print(trouble, style="red", markup=False, soft_wrap=True)
    more = f", {progress['declined']} did not agree to take part" if progress["declined"] else ""
    closed = ", closed" if progress["closed"] else ""
    out.print(
        f"{progress['answers']} answers, {progress['finished']} of {study.listeners} listeners "
        f"finished{more}{closed}",
        markup=False,
    )
    for look in found:
        says = "answered with yes, listening may stop for it" if look.decided else "still open"
        share = (
            f"{look.right} of {look.n} right, {look.listeners} listeners, between {100 * look.low:.0f} "
            f"and {100 * look.high:.0f} %"
        )
        may = "" if look.may_hear is None else f"; up to {100 * look.may_hear:.0f} % of listeners may hear it"
        out.print(
            f"{look.hypothesis} {look.where}: {says} ({share}{may}; at all times, for these clips)",
            markup=False,
            soft_wrap=True,
        )


@app.command()
def export(
    place: Place,
    to: Annotated[
        Path | None,
        typer.Argument(
            help="File to write: .csv, .json, .jsonl or .parquet. Default: answers.csv, of simulated ones "
            "answers_simulated.csv."
        ),
    ] = None,
    database: Database = None,
    simulated: SimulatedOnes = False,
    jnd: Annotated[
        Path | None,
        typer.Option(
            help="Also write this folder: pairs of clips with their judgments, ready for training a metric."
        ),
    ] = None,
    people: Annotated[
        Path | None,
        typer.Option(
            help="Also write this file, of personal data: who took part, with recruitment parameters, "
            "completion codes, times, demographics and comments."
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            help="Also write this file: what happened on listeners' pages, such as pages hidden and sounds "
            "that did not play."
        ),
    ] = None,
) -> None:
    """Write the answers, one row each, with who is excluded and why, and a codebook beside them. No personal
    data but with --people."""
    from limen.listening.analysis.columns import EVENTS, answer_columns, codebook_path, people_columns
    from limen.listening.analysis.export import write
    from limen.listening.analysis.jnd import TABLE, jnd_table
    from limen.listening.analysis.people import people as everybody
    from limen.listening.checks.targets import refuse_clashes, with_codebooks
    from limen.listening.server.events import page_events

    file = _file(place)
    study, rows, _ = _rows(file, database, simulated)
    to = to or Path(f"answers{_suffix(rows)}.csv")
    tables = [(to, "rows", rows, answer_columns(study))]
    with _store(file, database, simulated) as (_, store):
        if people is not None:
            tables.append((people, "people, personal data", everybody(store, study), people_columns(study)))
        if events is not None:
            tables.append((events, "events", page_events(store, study), EVENTS))
    judged = [] if jnd is None else [(jnd / TABLE, "judgments")]
    refuse_clashes(
        with_codebooks([*((path, what) for path, what, _, _ in tables), *judged]),
        file,
        _database(file, study, database),
    )
    for path, what, table, columns in tables:
        write(table, path, columns, private=path == people)
        out.print(
            f"written: {path} ({len(table)} {what}), explained by {codebook_path(path).name}",
            markup=False,
            soft_wrap=True,
        )
    if jnd is not None:
        judgments = jnd_table(rows, jnd, study, file.parent)
        out.print(
            f"written: {judgments}, explained by {codebook_path(judgments).name}",
            markup=False,
            soft_wrap=True,
        )


@app.command()
def analyze(
    place: Place,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Page to write; default results.html beside the study file, of simulated answers "
            "results_simulated.html.",
        ),
    ] = None,
    database: Database = None,
    simulated: SimulatedOnes = False,
    seed: Annotated[int, typer.Option(help="Seed of bootstrap and Monte Carlo.")] = 0,
) -> None:
    """Write the results page and, beside it, all its numbers as JSON."""
    from limen.listening.analysis.analyse import analyse
    from limen.listening.checks.targets import refuse_clashes
    from limen.report.study.page import build_study, sentences

    file = _file(place)
    study, rows, recorded = _rows(file, database, simulated)
    to = to or file.with_name(f"results{_suffix(rows)}.html")
    refuse_clashes(
        [(to, "the page"), (to.with_suffix(".json"), "its numbers")], file, _database(file, study, database)
    )
    results = analyse(study, rows, seed=seed, recorded=recorded)
    page = build_study(results, rows, to)
    write_atomic(
        page.with_suffix(".json"), json.dumps(results.as_dict(), indent=1, ensure_ascii=False).encode()
    )
    for line in sentences(results, rows):
        out.print(line, markup=False, soft_wrap=True)
    out.print(f"results: {page}", markup=False, soft_wrap=True)


@app.command()
def backup(
    place: Place,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist yet.")],
    database: Database = None,
) -> None:
    """Copy the answers of a study, also while it is served, into a file that `--database sqlite:///FILE`
    opens. It holds personal data.

    Never copy the database file itself while the study is served. Answers in PostgreSQL are copied with
    pg_dump.
    """
    _package("sqlalchemy")
    from limen.listening.server.backup import backup as run
    from limen.listening.study import read_study

    file = _file(place)
    answers = run(_database(file, read_study(file), database), to)
    out.print(
        f"written: {to} ({answers} answers; holds personal data, only you can read it)",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def close(place: Place, database: Database = None) -> None:
    """Freeze the study: no more listeners, no more answers."""
    with _store(_file(place), database) as (_, store):
        store.close_study()
    out.print("closed: no listener and no answer is taken from now on", markup=False)


@app.command()
def erase(
    place: Place,
    listener: Annotated[int, typer.Argument(help="Number of the listener, as in the export.")],
    database: Database = None,
) -> None:
    """Erase what is known of a listener's person; the answers stay, and no longer belong to anybody."""
    with _store(_file(place), database) as (_, store):
        store.erase(listener)
    out.print(f"erased: personal data of listener {listener}", markup=False)


def _told_code(code: str) -> str:
    """What to do about the completion code of a study."""
    return (
        f"{code}  (paste it into the recruitment site; listeners see it once every answer of theirs is "
        "stored)"
    )


def _file(place: Path) -> Path:
    file = place / "study.yaml" if place.is_dir() else place
    if not file.is_file():
        raise UserError(f"{file}: there is no such study file. `limen listen new {place}` writes a study.")
    return file


def _database(file: Path, study: "Study", database: str | None) -> str | Path:
    """Where the answers of people are kept."""
    return database or file.parent / f"{study.name}.db"


@contextmanager
def _store(file: Path, database: str | None, simulated: bool = False) -> "Iterator[tuple[Study, Store]]":
    """The study and its answers, or the simulated ones; there must be some."""
    _package("sqlalchemy")
    from limen.listening.server.storage_failures import database_errors
    from limen.listening.server.store import Store
    from limen.listening.simulation.simulate import simulated_database
    from limen.listening.study import read_study

    study = read_study(file)
    made_up = simulated_database(file)
    where = made_up if simulated else _database(file, study, database)
    if isinstance(where, Path) and not where.is_file():
        there = made_up.is_file()
        hint = (
            "--simulated takes the simulated ones that are there"
            if there
            else f"`limen listen simulate {file.parent}` makes some up"
        )
        raise UserError(
            f"{where}: there are no answers yet. `limen listen serve {file.parent}` takes those of people, "
            f"{hint}."
        )
    with database_errors(where), closing(Store(where)) as store:
        yield study, store


def _rows(
    file: Path, database: str | None, simulated: bool
) -> "tuple[Study, list[dict[str, Any]], str | None]":
    """The study, its answers as a table, and the fingerprint recorded before the first of them."""
    from limen.listening.analysis.export import rows

    with _store(file, database, simulated) as (study, store):
        return study, rows(store.answers(), store.listeners(), study), store.fingerprint()


def _suffix(rows: list[dict[str, Any]]) -> str:
    """Part of a file name, so that simulated answers never replace those of people."""
    return "_simulated" if any(row["simulated"] for row in rows) else ""


def _package(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise missing_package("limen listen", name, "listen") from None
