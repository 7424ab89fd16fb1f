"""Atomic writes: a file is written under a temporary name in the same folder, then renamed into place."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from limen.core.errors import UserError


def write_atomic(path: Path, content: bytes) -> Path:
    """Write a file so that readers, also after a crash, find the old content or the new, never a part of it.

    An OSError carries the path."""
    with naming_file(path):
        if path.exists() and not path.is_file():  # a pipe or a device is written to, not replaced
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)  # the file that a link leads to, not the link
    return path


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the path to an OSError raised inside: the system reports a full disk without it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: Path, shape: type = dict) -> Any:
    """Read a JSON file of a run folder; a UserError names a file that is missing, damaged or of another
    type."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing. If the run was stopped, continue it with --resume.") from None
    except ValueError as error:  # no JSON, or no text
        raise UserError(
            f"{path} is damaged: {error}. Delete it and run the experiment again with --resume: "
            "finished cells are kept."
        ) from None
    if not isinstance(value, shape):
        raise UserError(
            f"{path} must hold a JSON {'object' if shape is dict else 'list'}, but holds "
            f"{type(value).__name__}."
        )
    return value
