"""Opening a run folder: for one experiment, by one process at a time, with a record of every session."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import limen
from limen.core.atomic import read_json
from limen.core.errors import UserError
from limen.experiments import lock
from limen.experiments.file import Experiment
from limen.experiments.folder import write_json

SAME_CELLS = ("batch_size", "safe_mode", "description")
"""Options of an experiment that may change between sessions: they change no result."""
VERSION = ("limen", "git", "torch")
"""Entries of environment.json that must be equal for two sessions to compute the same numbers."""


@contextmanager
def open_run(experiment: Experiment, run: Path, resume: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Create the folder, or check that it holds the same experiment, and lock it against other processes. A
    new folder is removed again if the run cannot start."""
    new = [folder for folder in (run, *run.parents) if not folder.exists()]
    try:
        run.mkdir(parents=True, exist_ok=True)
        with lock.locked(run, say):
            _start_session(experiment, run, resume, say)
            new = []
            yield
    finally:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()


def _start_session(experiment: Experiment, run: Path, resume: bool, say: Callable[[str], None]) -> None:
    config, resolved = run / "config.json", experiment.model_dump(mode="json")
    exists = config.exists()
    if exists:
        if not resume:
            raise UserError(
                f"{run} already holds a run. Resume it with --resume, or choose another folder with --out."
            )
        old = read_json(config)
        changed = [k for k in resolved if k not in SAME_CELLS and old.get(k) != resolved[k]]
        if changed:
            raise UserError(
                f"{run} holds another experiment (different: {', '.join(changed)}). Choose another folder "
                "with --out."
            )
    elif not (resume and (run / "cells").is_dir()) and any(path.name != lock.NAME for path in run.iterdir()):
        raise UserError(f"{run} is not empty and holds no run. Choose another folder with --out.")
    sessions = _sessions(run / "environment.json")
    now = environment()
    try:
        (run / "cells").mkdir(exist_ok=True)
        write_json(config, resolved)
        write_json(run / "environment.json", {**now, "sessions": [*sessions, now]})
    except OSError:
        if not exists:
            for path in (config, run / "environment.json"):
                path.unlink(missing_ok=True)
            with suppress(OSError):
                (run / "cells").rmdir()
        raise
    if others := [s for s in sessions if any(s.get(key) != now[key] for key in VERSION)]:
        say(
            f"this run was started with {_version(others[0])} and is resumed with {_version(now)}; finished "
            "cells are kept, and environment.json records both versions"
        )


def _sessions(path: Path) -> list[dict[str, Any]]:
    """Earlier sessions, oldest first."""
    known = read_json(path).get("sessions", []) if path.exists() else []
    return [session for session in known if isinstance(session, dict)]


def _version(session: dict[str, Any]) -> str:
    git = f" (git {str(session['git'])[:12]})" if session.get("git") else ""
    return f"limen {session.get('limen')}{git}, torch {session.get('torch')}"


def environment() -> dict[str, Any]:
    """Versions, hardware and command of this session, for environment.json."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy", "soundfile", "pydantic")}
    return {
        "limen": limen.__version__,
        "git": _git(),
        "python": platform.python_version(),
        **packages,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "command": " ".join(["limen", *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _git() -> str | None:
    """The commit of the repository that contains the package; None if the package is not under version
    control (a virtual environment may be inside another repository)."""
    here = Path(limen.__file__)
    git = lambda *words: subprocess.run(
        ["git", "-C", str(here.parent), *words], capture_output=True, text=True, check=True, timeout=10
    )
    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("rev-parse", "HEAD").stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
