"""Checks of the files that a command is about to write: all different, and none of them a file of the
study."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from limen.core.errors import UserError
from limen.core.yaml import read_yaml
from limen.listening.analysis.columns import codebook_path
from limen.listening.server.database import parse_url
from limen.listening.simulation.simulate import simulated_database
from limen.listening.study import read_study

Target = tuple[Path, str]
"""A file, and its content."""


def with_codebooks(tables: Iterable[Target]) -> list[Target]:
    """The tables, each with its codebook."""
    return [
        target
        for path, what in tables
        for target in ((path, what), (codebook_path(path), f"the codebook of {what}"))
    ]


def refuse_clashes(targets: Iterable[Target], file: Path, database: str | Path) -> None:
    """A UserError if a file would be written twice, or belongs to the study with the study file `file`."""
    own = {_identity(path): what for path, what in _own(file, database)}
    written: dict[object, str] = {}
    for path, what in targets:
        who = _identity(path)
        if who in own:
            raise UserError(f"{path}: is {own[who]} and would be overwritten by {what}. Choose another name.")
        if who in written:
            raise UserError(
                f"{path}: expected a separate file for {written[who]} and for {what}. A "
                "codebook is named after its table, with .codebook.csv instead of the ending: give tables "
                "in one folder names that differ in more than the ending."
            )
        written[who] = what


def _identity(path: Path) -> object:
    """Equal for two names of the same file."""
    try:
        found = path.stat()
    except OSError:
        return path.resolve()
    return found.st_dev, found.st_ino


def _own(file: Path, database: str | Path) -> Iterator[Target]:
    yield file, "the study file"
    if isinstance(items := read_yaml(file).get("items"), str):
        yield file.parent / items, "the table of the study's items"
    for item in read_study(file).items:
        yield from ((file.parent / sound, f"a sound of the item {item.id}") for sound in item.files.values())
    for where in (database, simulated_database(file)):
        if (url := parse_url(where)).get_backend_name() == "sqlite":
            yield from (
                (Path(f"{url.database}{end}"), "a database of answers")
                for end in ("", "-wal", "-shm", "-journal")
            )
