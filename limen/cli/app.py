"""The command `limen`. A mistake of the user ends with one clear message and exit code 2."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from limen import __version__
from limen.cli.components import app as components_app
from limen.cli.data import app as data_app
from limen.cli.listen import app as listen_app
from limen.cli.options import (
    Device,
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
    varied_text,
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
    map: Map = None,
    cradv_exact: Exact = False,
) -> None:
    """Run an experiment into a run folder and build its report."""
    _run(file, folder, resume, limit, device, jobs, path_mapping(map or []), cradv_exact)


@app.command()
def train(
    file: File, folder: Folder = None, resume: Resume = False, limit: Limit = None, device: Device = "cpu"
) -> None:
    """Train the nets of an experiment file and print the paths of their weights. The weights of a single net
    are also copied to the run folder itself."""
    from limen.experiments.file import load_file, read_experiment

    experiment = read_experiment(load_file(file), file, limit)
    if others := sorted({t.task["name"] for t in experiment.tasks} - {"train"}):
        raise UserError(
            f"limen train runs tasks named train, but {file} has {', '.join(others)}. Use `limen run`."
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
    mapping: dict[str, str] | None = None,
    cradv_exact: bool = False,
) -> Path:
    """Run a file of ours or of CrAdv's; returns the run folder."""
    from limen.cli.progress import Bar
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
                experiment, where, resume=resume, device=there, jobs=job_count(jobs, there), progress=bar
            )
        page = build(where)
        _show(summary, where)
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


def _show(summary: dict[str, Any], where: Path) -> None:
    """A short table per net on the terminal, and a line per curve; all attacks of a budget together have
    their own."""
    from limen.report import all_together

    unions = all_together(where)
    cells = [c for c in summary["cells"] if "values" not in c["summary"]["result"] and c["task"] != "audit"]
    for net in dict.fromkeys(c["labels"]["net"] for c in cells):
        _show_net(
            net,
            [c for c in cells if c["labels"]["net"] == net],
            [u for u in unions if u["net"] == net and "values" not in u],
        )
    curves = [
        (c["labels"], c["summary"]["result"]) for c in summary["cells"] if "values" in c["summary"]["result"]
    ]
    for labels, curve in [*curves, *((u, u) for u in unions if "values" in u)]:
        points = [
            f"{value:g}: {100 * accuracy:.0f} %"
            for value, accuracy in zip(curve["values"], curve["accuracy"], strict=True)
        ]
        who = " | ".join(labels[k] for k in ("net", "defense", "attack"))
        out.print(f"  {who}, accuracy by {curve['constraint']}  {'  '.join(points)}", soft_wrap=True)


def _show_net(net: str, cells: list[dict[str, Any]], unions: list[dict[str, Any]]) -> None:
    recogniser = any("wer" in cell["summary"]["columns"] for cell in cells)
    columns = [
        "correct",
        "success",
        *(["fooled", "wer"] if recogniser else []),
        "l2",
        "snr_db",
        "peak_db",
        "pesq",
    ]
    present = [c for c in columns if any(c in cell["summary"]["columns"] for cell in cells)]
    # of clips l2 and snr_db say the same, and a terminal is narrow
    present = [
        c for c in present if not (c == "l2" and "snr_db" in present) and not (c == "peak_db" and recogniser)
    ]
    varied = any(cell["variable"] for cell in cells)
    table = Table(box=None, header_style="bold", title=net, title_justify="left", title_style="bold")
    for name in ["defense", "attack", *(["varied"] if varied else []), "n", *present]:
        table.add_column(
            name, no_wrap=True, justify="left" if name in ("defense", "attack", "varied") else "right"
        )
    for cell in cells:
        for attack, n, values in _lines(cell):
            who = [cell["labels"]["defense"], attack, *([varied_text(cell["variable"])] if varied else [])]
            if cell["status"] == "failed":
                table.add_row(*who, "failed", cell["error"][:60])
            else:
                table.add_row(*who, str(n), *(_number(c, values.get(c)) for c in present))
    for union in unions:
        under = "" if any("budget" in path for path in union["variable"]) else f", {union['budget']}"
        who = [
            union["defense"],
            union["attack"] + under,
            *([varied_text(union["variable"])] if varied else []),
        ]
        table.add_row(
            *who, str(union["n"]), *(_number(c, _typical(union["columns"].get(c))) for c in present)
        )
    out.print(table)
    medians = ", ".join(c for c in present if c not in COUNTED)
    out.print(
        " "
        + "; ".join(
            [
                *(f"{c}: {COUNTED[c]}" for c in present if c in COUNTED),
                *([f"{medians}: median"] if medians else []),
            ]
        ),
        style="dim",
        soft_wrap=True,
    )


def _lines(cell: dict[str, Any]) -> list[tuple[str, int, dict[str, float | None]]]:
    """Attack, number of samples and column -> number; of a transfer one line per victim, since each answers
    to all samples."""
    attack, summary = cell["labels"]["attack"], cell["summary"]
    victims = summary["result"].get("victims") or {}
    values = {name: _typical(column) for name, column in summary["columns"].items()}
    if len(victims) > 1:  # the change is the same for all of them, the answers are not
        change = {name: value for name, value in values.items() if name not in COUNTED}
        return [
            (f"{attack} on {name}", v["n"], {**change, **v, "correct": v.get("accuracy")})
            for name, v in victims.items()
        ]
    # without an attack nothing was tried
    return [(attack, summary["n"], {k: v for k, v in values.items() if attack != "none" or k != "fooled"})]


COUNTED = {
    "correct": "right, of all n",
    "success": "at the attack's goal, of those not there before",
    "fooled": "answered otherwise, of all n",
    "wer": "all errors over all words",
}
"""What the numbers of the short table are; the others are medians."""


def _typical(column: dict[str, Any] | None) -> float | None:
    from limen.metrics.base.summary import typical

    return typical(column)[1] if column else None


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if name in ("correct", "success", "fooled") else f"{value:.3g}"


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
