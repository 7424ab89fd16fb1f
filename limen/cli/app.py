"""The command `limen`. A mistake of the user ends with one clear message and exit code 2."""

import time
from pathlib import Path
from typing import Annotated

import typer

from limen import __version__
from limen.cli.components import app as components_app
from limen.cli.data import app as data_app
from limen.cli.listen.app import app as listen_app
from limen.cli.options import (
    Device,
    Engine,
    Exact,
    File,
    Folder,
    Jobs,
    Limit,
    Map,
    Resume,
    Written,
    available_device,
    job_count,
    out,
    path_mapping,
    refuse_cradv_options,
)
from limen.cli.plan import app as plan_app
from limen.cli.process import resume_hint, run_command
from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.core.interrupts import single_interrupt

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Limen tells you how easily a model can be fooled, and whether anyone would notice.",
)
app.add_typer(components_app)
app.add_typer(plan_app)
app.add_typer(data_app, name="data")
app.add_typer(listen_app, name="listen")


@single_interrupt()
def main() -> None:
    run_command(app)


@app.command()
def demo(folder: Folder = None, resume: Resume = False, limit: Limit = None) -> None:
    """Attack, defend and measure a spoken-command classifier, a digit classifier and a speech recogniser on
    embedded data, and build the report."""
    _run(Path(__file__).parent.parent / "experiments" / "demo.yaml", folder, resume, limit)


@app.command()
def run(
    file: File,
    folder: Folder = None,
    resume: Resume = False,
    limit: Limit = None,
    device: Device = "cpu",
    jobs: Jobs = 0,
    engine: Engine = "processes",
    map: Map = None,
    cradv_exact: Exact = False,
) -> None:
    """Run an experiment into a run folder and build its report."""
    _run(file, folder, resume, limit, device, jobs, engine, path_mapping(map or []), cradv_exact)


@app.command()
def train(
    file: File, folder: Folder = None, resume: Resume = False, limit: Limit = None, device: Device = "cpu"
) -> None:
    """Train the nets of an experiment file and print the paths of their weights. The weights of a single net
    are also copied to the run folder itself."""
    from limen.experiments.file import load_file, read_experiment
    from limen.tasks.base.task import parse_task

    experiment = read_experiment(load_file(file), file, limit)
    if others := sorted({t.task["name"] for t in experiment.tasks if not parse_task(t.task)[1].trains}):
        raise UserError(
            f"limen train runs tasks that train a net, but {file} has {', '.join(others)}. Use `limen run`."
        )
    where = _run(file, folder, resume, limit, device)
    trained = sorted(where.glob("cells/*/weights.safetensors"))
    if len(trained) == 1:  # a path that a later experiment can name
        trained = [write_atomic(where / "weights.safetensors", trained[0].read_bytes())]
    for weights in trained:
        out.print(f"weights: {weights}", soft_wrap=True)


@app.command()
def report(
    run_folder: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[
        Path | None, typer.Option("--out", help="File to write; default report.html in the run folder.")
    ] = None,
) -> None:
    """Rebuild the report of a run."""
    from limen.report import build

    out.print(f"report: {build(run_folder, to)}", soft_wrap=True)


@app.command()
def measure(
    clean: Annotated[Path, typer.Argument(help="A file or a folder.")],
    adversarial: Annotated[Path, typer.Argument(help="A file or a folder, matched by name.")],
    csv: Written = None,
    json: Written = None,
    html: Written = None,
    align: Annotated[
        bool,
        typer.Option("--align", help="Shift the adversarial clip to the best alignment first (codec delay)."),
    ] = False,
) -> None:
    """Measure the distortion between clean and adversarial files of any origin, audio or images."""
    from limen.measure.command import command

    command(clean, adversarial, csv=csv, json_path=json, html=html, align=align, console=out)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def _run(
    file: Path,
    folder: Path | None,
    resume: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    jobs: int = 0,
    engine: str = "processes",
    mapping: dict[str, str] | None = None,
    cradv_exact: bool = False,
) -> Path:
    """Run an experiment file or one of CrAdv's task files; returns the run folder."""
    from limen.cli.progress import Bar
    from limen.cli.run_table import print_run
    from limen.experiments.cradv.runner import is_cradv, run_cradv
    from limen.experiments.engine import run as run_experiment
    from limen.experiments.file import load_file, read_experiment
    from limen.report import build

    content = load_file(file)
    if is_cradv(content):
        with resume_hint(folder), Bar(out) as bar:
            where = run_cradv(
                content,
                file,
                mapping=mapping or {},
                out=folder,
                limit=limit,
                device=device,
                progress=bar,
                resume=resume,
                exact=cradv_exact,
            )
        out.print(f"results: {where}", soft_wrap=True)
        return where
    refuse_cradv_options(mapping, cradv_exact)
    experiment = read_experiment(content, file, limit)
    where = folder or _folder(experiment.name, resume)
    out.print(f"run folder: {where}", soft_wrap=True)
    begun = time.perf_counter()
    with resume_hint(where):
        with Bar(out) as bar:
            there = available_device(device)
            summary = run_experiment(
                experiment,
                where,
                resume=resume,
                device=there,
                jobs=job_count(jobs, there),
                engine=engine,
                progress=bar,
            )
        page = build(where)
        print_run(summary, where, out)
    out.print(f"finished in {_time(time.perf_counter() - begun)}")
    out.print(f"report: {page}", soft_wrap=True)
    return where


def _folder(name: str, resume: bool) -> Path:
    if resume:
        runs = sorted(Path("runs").glob(f"{name}-*/config.json"), key=lambda p: p.stat().st_mtime)
        if not runs:
            raise UserError(
                f"There is no run of {name} to resume in runs/. Start it without --resume, or name the "
                "folder with --out."
            )
        return runs[-1].parent
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.1f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )


if __name__ == "__main__":
    main()
