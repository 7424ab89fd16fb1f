"""The cache of `limen data get`: one folder per name, complete or absent."""

import os
from pathlib import Path

from limen.core.errors import UserError

RECORD = "source.json"
"""Source, licence, size and sha256 of every file; written last, so a folder that has it is complete."""


def cache_folder() -> Path:
    """$LIMEN_CACHE, or ~/.cache/limen."""
    return Path(os.environ.get("LIMEN_CACHE") or Path.home() / ".cache" / "limen").expanduser()


def fetched(name: str) -> Path:
    """The folder of the files fetched under this name; a UserError with the command if it does not exist."""
    folder = cache_folder() / name
    if not (folder / RECORD).is_file():
        raise UserError(
            f"{name} is not on this machine yet (looked in {folder}). Fetch it: limen data get {name}"
        )
    return folder
