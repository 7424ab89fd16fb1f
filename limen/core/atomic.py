"""Files that are whole or not there: written beside and renamed into place."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from limen.core.errors import UserError


def write_atomic(path: Path, content: bytes) -> Path:
    """A reader, and a run that was killed, find the old file or the new one, never half of one. What could
    not be written is named."""
    with named(path):
        if path.exists() and not path.is_file():  # a pipe or a device is written to, not replaced
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)  # the file that a link leads to, not the link
    return path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Puts the name of the file into what the system refuses in here: a full disk does not tell it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def read_json(path: Path, shape: type = dict) -> Any:
    """What `write_atomic` wrote as JSON; a UserError that names a file which is missing, cut short or
    something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing. If the run was stopped, continue it with --resume.") from None
    except ValueError as error:  # no JSON, or no text
        raise UserError(
            f"{path} is damaged: {error}. Delete it and run the experiment again with --resume: "
            "what is whole is kept."
        ) from None
    if not isinstance(value, shape):
        raise UserError(
            f"{path} must hold a JSON {'object' if shape is dict else 'list'}, but holds "
            f"{type(value).__name__}."
        )
    return value
