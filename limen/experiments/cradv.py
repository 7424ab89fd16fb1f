"""Runs CrAdv's task files unchanged (https://github.com/diegoirigaray/CrAdv) and writes its results tree."""

from pathlib import Path
from typing import Any

from limen.errors import UserError


def is_cradv(content: dict[str, Any]) -> bool:
    """Whether the file is a CrAdv task file: its tasks hold `task_data`."""
    tasks = content.get("tasks")
    return isinstance(tasks, list) and any(isinstance(t, dict) and "task_data" in t for t in tasks)


def run_cradv(content: dict[str, Any], file: Path, *, mapping: dict[str, str], out: Path | None, limit: int | None, device: str, progress: Any) -> Path:
    raise UserError("CrAdv files are not read yet.")
