"""Files that are whole or not there: written beside and renamed into place."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> Path:
    """A reader, and a run that was killed, find the old file or the new one, never half of one."""
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(content)
    os.replace(beside, path)
    return path
