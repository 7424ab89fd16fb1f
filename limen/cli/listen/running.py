"""`limen listen serve`, `monitor`, `backup`, `close` and `erase`: a study while listeners take it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from limen.cli.listen.study_arguments import (
    PASTE,
    Database,
    Simulated,
    StudyPath,
    database_of,
    open_store,
    out,
    require,
    say,
    study_file,
)
from limen.core.errors import UserError

if TYPE_CHECKING:
    from limen.listening.server.interim import Interim

SHORTEST_TOKEN = 16


def serve(
    study: StudyPath,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. 0.0.0.0 accepts connections from other machines."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    database: Database = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="LIMEN_ADMIN_TOKEN",
            help=f"Password of the page /admin, at least {SHORTEST_TOKEN} characters. Default: a random one "
            "that stays the same for a database; it is printed at the start.",
        ),
    ] = None,
    per_address: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of listeners who may take part from one network address at the same time. For a "
            "classroom or laboratory that shares an address, set it to the number of people. Default: a "
            "tenth of the study's listeners, at least 3.",
        ),
    ] = None,
    idle_timeout: Annotated[
        float,
        typer.Option(
            min=1,
            help="Minutes without an answer or a fetched sound after which the place of a listener may be "
            "taken by another.",
        ),
    ] = 60,
    start_timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Minutes of inactivity after which a listener who has not heard any sound yet counts as "
            "having left.",
        ),
    ] = 10,
) -> None:
    """Serve the study to listeners until Ctrl-C.

    Prints the address for listeners, the address and token of the progress page, and the completion code.
    Stopping, a crash or a restart loses no stored answer; listeners continue where they stopped. For use on
    the internet put a web server with https in front (docs/listening.md shows how).
    """
    file = study_file(study)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(
            f"--token: got {len(token)} characters, expected at least {SHORTEST_TOKEN}, because anyone may "
            "try tokens at /admin. Without the option a long random token is used."
        )
    require("uvicorn")
    from limen.listening.checks.check import check_study
    from limen.listening.server.app import serve as run
    from limen.listening.server.limits import Limits

    if errors := [f.text for f in check_study(file) if f.level == "error"]:
        raise UserError(f"{file} cannot be served:\n" + "\n".join(errors))
    address = f"http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{port}"

    def announce(site: Any) -> None:
        sessions = site.state.sessions
        say(f"listeners: {address}/")
        say(f"progress:  {address}/admin  (token: {site.state.token})")
        if sessions.study.recruitment.codes == "listener":
            say("completion code: one for each listener; `limen listen export --people FILE` lists them")
        else:
            say(f"completion code: {sessions.identifiers.completion_code(0)}  ({PASTE})")
        if problem := sessions.store.storage_problem():
            say(problem, style="red")

    run(
        file,
        database,
        host=host,
        port=port,
        announce=announce,
        token=token,
        idle_timeout_min=idle_timeout,
        start_timeout_min=start_timeout,
        limits=Limits(begin_burst=per_address),
    )


def monitor(study: StudyPath, database: Database = None, simulated: Simulated = False) -> None:
    """Show the progress of a study and interim results.

    Prints the number of listeners by group and state, and for each hypothesis about chance whether it is
    already confirmed. The interim tests are valid however often this command is used, also while the study is
    served.
    """
    from limen.listening.analysis.export import rows
    from limen.listening.server.enrolment import STATES
    from limen.listening.server.interim import interim

    with open_store(study_file(study), database, simulated) as (plan, store):
        problem, progress = store.storage_problem(), store.progress()
        answers = rows(store.answers(), store.listeners(), plan)
        results = interim(plan, answers)
    if any(row["simulated"] for row in answers):
        out.print("SIMULATED ANSWERS", style="bold red")
    table = Table(box=None, header_style="bold")
    for name in ("group", *STATES):
        table.add_column(name, justify="left" if name == "group" else "right")
    for group, counts in progress["groups"].items():
        table.add_row(group or "all", *(str(counts[name]) for name in STATES))
    out.print(table)
    if problem:
        say(problem, style="red")
    declined = f", {progress['declined']} did not agree to take part" if progress["declined"] else ""
    closed = ", closed" if progress["closed"] else ""
    say(
        f"{progress['answers']} answers, {progress['finished']} of {plan.listeners} listeners "
        f"finished{declined}{closed}"
    )
    for result in results:
        say(_interim_line(result))


def _interim_line(result: "Interim") -> str:
    state = "confirmed, listening may stop for it" if result.decided else "still open"
    share = f"between {100 * result.low:.0f} and {100 * result.high:.0f} %"
    may_hear = ""
    if result.may_hear is not None:
        may_hear = f"; up to {100 * result.may_hear:.0f} % of listeners may hear it"
    return (
        f"{result.hypothesis} {result.where}: {state} ({result.right} of {result.n} right, "
        f"{result.listeners} listeners, {share}{may_hear}; valid at all times, for these clips)"
    )


def backup(
    study: StudyPath,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist yet.")],
    database: Database = None,
) -> None:
    """Copy the answers of a study to a file, also while it is served.

    The other commands open the copy with `--database sqlite:///FILE`. It holds personal data. Do not copy the
    database file itself while the study is served. For answers in PostgreSQL use pg_dump.
    """
    require("sqlalchemy")
    from limen.listening.server.backup import backup as run
    from limen.listening.study import read_study

    file = study_file(study)
    answers = run(database_of(file, read_study(file), database), to)
    say(f"written: {to} ({answers} answers; holds personal data, only you can read it)")


def close(study: StudyPath, database: Database = None) -> None:
    """Close the study for good: from now on it accepts no listeners and no answers."""
    with open_store(study_file(study), database) as (_, store):
        store.close_study()
    out.print("closed: no more listeners and answers are accepted", markup=False)


def erase(
    study: StudyPath,
    listener: Annotated[int, typer.Argument(help="Number of the listener, as in the export.")],
    database: Database = None,
) -> None:
    """Erase the personal data of a listener.

    Deletes recruitment parameters, answers about the person and events, and what recognises the person. The
    other answers stay and can no longer be linked to the person. May be used while the study is served.
    """
    with open_store(study_file(study), database) as (_, store):
        store.erase(listener)
    out.print(f"erased: personal data of listener {listener}", markup=False)
