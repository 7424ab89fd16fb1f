"""Arguments and options that several commands share."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from limen.core.errors import UserError

out = Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else 110)

File = Annotated[
    Path,
    typer.Argument(help="Experiment file (YAML or JSON); `run` and `plan` also take CrAdv's task files."),
]
Folder = Annotated[Path | None, typer.Option("--out", help="Folder of the run; default runs/<name>-<time>.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume a stopped run; without --out, the newest run of this name."),
]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Use at most N samples of every data set.")
]
Device = Annotated[
    str,
    typer.Option(
        help="Device of the models: cpu, cuda, cuda:1. If it is not available, cpu is used with a notice."
    ),
]
Jobs = Annotated[int, typer.Option(min=0, help="Cells computed in parallel; 0: one per core (on cpu).")]
Engine = Annotated[
    str, typer.Option(help="Where several jobs are computed; `limen list engines`. One job runs inline.")
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="OLD=NEW", help="For CrAdv files: replace the start of paths. May be repeated."
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--cradv-exact",
        help="For CrAdv files: search and count exactly as CrAdv does, mistakes included (docs/cradv.md).",
    ),
]
Written = Annotated[Path | None, typer.Option(help="Write the table to this file.")]


def path_mapping(pairs: list[str]) -> dict[str, str]:
    """Old path prefix -> new one, from OLD=NEW arguments."""
    for pair in pairs:
        if "=" not in pair:
            raise UserError(f"--map takes OLD=NEW, for example --map /old/data=/new/data, got {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs)  # type: ignore[misc]


def refuse_cradv_options(mapping: dict[str, str] | None, exact: bool = False) -> None:
    """Refuse options that only apply to CrAdv's task files."""
    if mapping or exact:
        raise UserError(
            f"{'--map' if mapping else '--cradv-exact'} is for CrAdv task files; this is an experiment file "
            "of Limen."
        )


def available_device(name: str) -> str:
    """The device, or cpu with a notice if it is not available."""
    import torch

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        out.print(
            f"device {name} is not available here, using cpu ({str(error).splitlines()[0]})", style="yellow"
        )
        return "cpu"
    return name


def job_count(jobs: int, device: str) -> int:
    """Number of cells computed in parallel; 0 means one per core."""
    return jobs or (os.cpu_count() or 1 if device == "cpu" else 1)


def varied_text(variable: dict[str, Any] | None) -> str:
    """Values of a sweep, by the last part of their names: "eps 0.1"."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in (variable or {}).items())
