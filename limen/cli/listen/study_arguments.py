"""Arguments that the commands of `limen listen` share, and what they refer to."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from limen.core.errors import UserError, missing_package

if TYPE_CHECKING:
    from limen.listening.server.store import Store
    from limen.listening.study import Study

out = Console(highlight=False)
PASTE = "paste it into the recruitment site; listeners see it once all their answers are stored"
"""What to do with a completion code."""

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", help="Folder of the study, or its file study.yaml.")
]
Database = Annotated[
    str | None,
    typer.Option(
        envvar="LIMEN_DATABASE",
        metavar="URL",
        help="Database of the answers: sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME. Default: the "
        "file NAME.db in the folder of the study.",
    ),
]
Simulated = Annotated[
    bool,
    typer.Option(
        "--simulated",
        help="Use the answers of `limen listen simulate` (simulated.db) instead of those of people.",
    ),
]


def say(text: str, **style: Any) -> None:
    """Print a line without interpreting markup or wrapping paths."""
    out.print(text, markup=False, soft_wrap=True, **style)


def study_file(study: Path) -> Path:
    file = study / "study.yaml" if study.is_dir() else study
    if not file.is_file():
        raise UserError(f"{file}: no such study file. `limen listen new {study}` writes a study.")
    return file


def database_of(file: Path, study: "Study", database: str | None) -> str | Path:
    """The database with the answers of people."""
    return database or file.parent / f"{study.name}.db"


@contextmanager
def open_store(file: Path, database: str | None, simulated: bool = False) -> "Iterator[tuple[Study, Store]]":
    """The study and the store of its answers, or of simulated ones; a UserError if there is no database."""
    require("sqlalchemy")
    from limen.listening.server.storage_failures import database_errors
    from limen.listening.server.store import Store
    from limen.listening.simulation.simulate import simulated_database
    from limen.listening.study import read_study

    study = read_study(file)
    simulated_file = simulated_database(file)
    where = simulated_file if simulated else database_of(file, study, database)
    if isinstance(where, Path) and not where.is_file():
        if simulated_file.is_file():
            hint = "--simulated uses the simulated answers that exist"
        else:
            hint = f"`limen listen simulate {file.parent}` simulates some"
        raise UserError(
            f"{where}: there are no answers yet. `limen listen serve {file.parent}` collects answers of "
            f"people; {hint}."
        )
    with database_errors(where), closing(Store(where)) as store:
        yield study, store


def answer_rows(
    file: Path, database: str | None, simulated: bool
) -> "tuple[Study, list[dict[str, Any]], str | None]":
    """The study, its answers as rows, and the fingerprint recorded before the first answer."""
    from limen.listening.analysis.export import rows

    with open_store(file, database, simulated) as (study, store):
        return study, rows(store.answers(), store.listeners(), study), store.fingerprint()


def file_suffix(rows: list[dict[str, Any]]) -> str:
    """Part of output file names, so that simulated answers never replace those of people."""
    return "_simulated" if any(row["simulated"] for row in rows) else ""


def require(package: str) -> None:
    try:
        import_module(package)
    except ModuleNotFoundError:
        raise missing_package("limen listen", package, "listen") from None
