"""The command `limen`. A user's mistake ends with one clear message and exit code 2."""

import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from limen import __version__
from limen.cli.listen import app as listen_app
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
data_app = typer.Typer(no_args_is_help=True, help="Data sets and published models that can be fetched.")
app.add_typer(data_app, name="data")
app.add_typer(listen_app, name="listen")
out = Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else 110)

File = Annotated[
    Path, typer.Argument(help="Experiment file (YAML or JSON); `run` also takes CrAdv's task files.")
]
Folder = Annotated[Path | None, typer.Option("--out", help="Folder of the run; default runs/<name>-<time>.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on where a stopped run was; without --out, the newest run of this name."
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Take at most so many samples of every data set.")]
Device = Annotated[
    str,
    typer.Option(
        help="Where models run: cpu, cuda, cuda:1. An absent device falls back to cpu with a notice."
    ),
]
Jobs = Annotated[int, typer.Option(min=0, help="Cells computed side by side; 0: one per core (on cpu).")]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="OLD=NEW", help="Of CrAdv files: replace the start of paths. May be repeated."
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--cradv-exact",
        help="Of CrAdv files: search and count as CrAdv itself does, its mistakes included (docs/cradv.md).",
    ),
]
Written = Annotated[Path | None, typer.Option(help="Write the table to this file.")]


@single_interrupt()
def main() -> None:
    run_command(app)


@app.command()
def demo(folder: Folder = None, resume: Resume = False, limit: Limit = None) -> None:
    """Attack, defend and measure a spoken-command model, a picture model and a recogniser on embedded data;
    ends with a report."""
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
    _run(file, folder, resume, limit, device, jobs, _mapping(map or []), cradv_exact)


@app.command()
def train(
    file: File, folder: Folder = None, resume: Resume = False, limit: Limit = None, device: Device = "cpu"
) -> None:
    """Train the nets of an experiment file; ends with the paths of the weights. Those of a single net stand
    in the run folder itself."""
    from limen.experiments.file import load_file, read_experiment

    experiment = read_experiment(load_file(file), file, limit)
    if others := sorted({t.task["name"] for t in experiment.tasks} - {"train"}):
        raise UserError(
            f"limen train runs tasks named train, but {file} has {', '.join(others)}. Use `limen run`."
        )
    where = _run(file, folder, resume, limit, device)
    trained = sorted(where.glob("cells/*/weights.safetensors"))
    if len(trained) == 1:  # a place that a second training can name
        trained = [write_atomic(where / "weights.safetensors", trained[0].read_bytes())]
    for weights in trained:
        out.print(f"weights: {weights}", soft_wrap=True)


@app.command()
def plan(
    file: File,
    limit: Limit = None,
    device: Device = "cpu",
    jobs: Jobs = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only list the cells; load no model to estimate the time.")
    ] = False,
    map: Map = None,
) -> None:
    """Show the cells of an experiment and about what they cost: each is tried on a few samples."""
    import torch

    from limen.experiments.cradv.runner import is_cradv
    from limen.experiments.engine import CellFactory
    from limen.experiments.estimate import Estimate, gradient_calls, samples_of, threads_of, total
    from limen.experiments.file import load_file, read_experiment
    from limen.experiments.plan import plan as make_plan

    start = time.process_time()  # a job begins with these imports too
    content, mapping = load_file(file), _mapping(map or [])
    if is_cradv(content):
        from limen.experiments.cradv.costs import show

        return show(content, file, mapping=mapping, limit=limit, device=device, quick=quick, console=out)
    _refuse_cradv(mapping)
    experiment = read_experiment(content, file, limit)
    cells = make_plan(experiment)
    table = Table(
        "task",
        "net",
        "defense",
        "attack",
        "varied",
        "samples",
        "gradients",
        "about",
        box=None,
        header_style="bold",
    )
    spans, failures = [], []
    there = _device(device)
    jobs = min(_jobs(jobs, there), len(cells))
    if not quick:
        torch.set_num_threads(threads_of(jobs))
    workshop = CellFactory(torch.device(there), experiment.batch_size, Path())
    estimate = Estimate(workshop)
    with out.status("trying each cell on a few samples") if out.is_terminal and not quick else nullcontext():
        for cell in cells:
            samples = gradients = about = "-"
            if not quick:
                try:
                    n = samples_of(cell, workshop)
                    spans.append(estimate.seconds(cell))
                    samples, gradients, about = (
                        str(n),
                        f"{n * gradient_calls(cell.spec):,.0f}",
                        str(spans[-1]),
                    )
                except UserError as error:
                    about = "fails"
                    failures.append(f"{cell.words}: {error}")
            task, labels = cell.spec["task"]["name"], cell.labels
            table.add_row(
                task,
                labels["net"],
                labels["defense"],
                labels["attack"],
                _varied(cell.variable),
                samples,
                gradients,
                about,
            )
    out.print(table)
    if quick:
        out.print(f"{len(cells)} cells")
        return
    how = (
        f"{jobs} job{'s' if jobs > 1 else ''} of {threads_of(jobs)} "
        f"thread{'s' if threads_of(jobs) > 1 else ''}"
    )
    out.print(
        f"{len(cells)} cells, about {total(spans, jobs, start + estimate.opened)} on this machine with "
        f"{how}, metrics, audits and the report included",
        soft_wrap=True,
    )
    for failure in failures:
        out.print(f"fails: {failure}", style="yellow", soft_wrap=True, markup=False)
    if failures:
        raise typer.Exit(2)


@app.command()
def report(
    run_folder: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[Path | None, typer.Option("--out", help="Where to write the page.")] = None,
) -> None:
    """Rebuild the page of a run."""
    from limen.report import build

    out.print(f"report: {build(run_folder, to)}", soft_wrap=True)


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help="For example attacks, models or metrics; all kinds if left out."),
    ] = None,
) -> None:
    """List the components of a kind."""
    from limen.core.components import KINDS, load, names

    if kind is not None and kind not in KINDS:
        raise UserError(f'There is no kind "{kind}". Kinds: {", ".join(KINDS)}.')
    for one in [kind] if kind else KINDS:
        out.print(one, style="bold")
        for name in names(one):
            out.print(f"  {name:<22} {load(one, name).summary}", soft_wrap=True, markup=False)


@app.command()
def describe(
    name: Annotated[
        str, typer.Argument(help="Name of a component, or kind/name where two kinds share it (metrics/l2).")
    ],
) -> None:
    """Describe a component and its options."""
    from limen.cli.reference import describe as words

    out.print(words(name), soft_wrap=True, markup=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of experiment files."""
    from limen.experiments.file import schema as make_schema

    print(json.dumps(make_schema(), indent=2))


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="attack, defense, metric, data, model or task.")],
    name: str,
    into: Annotated[
        Path | None, typer.Option(help="Folder to write to; default the folder of the kind.")
    ] = None,
) -> None:
    """Write a commented template of a new component; it passes its contract test as it stands."""
    from limen.cli.templates import write

    for path in write(kind, name, into):
        out.print(f"written: {path}", soft_wrap=True)


@app.command()
def measure(
    clean: Annotated[Path, typer.Argument(help="A file or a folder.")],
    adversarial: Annotated[Path, typer.Argument(help="A file or a folder, matched by name.")],
    csv: Written = None,
    json: Written = None,
    html: Written = None,
    align: Annotated[
        bool, typer.Option("--align", help="Shift the adversarial clip to where it fits best (codec delay).")
    ] = False,
) -> None:
    """Measure what was changed between clean and adversarial files, audio or pictures, made by anyone."""
    from limen.measure.command import command

    command(clean, adversarial, csv=csv, json_path=json, html=html, align=align, console=out)


@data_app.command("get")
def data_get(
    name: str,
    source: Annotated[
        Path | None, typer.Option("--from", help="A folder that already holds the files.")
    ] = None,
) -> None:
    """Fetch a data set or published model and check it (sha256)."""
    from limen.data.fetch.get import get

    out.print(f"ready: {get(name, source, out.print)}", soft_wrap=True)


@data_app.command("list")
def data_list() -> None:
    """What `limen data get` can fetch."""
    from limen.data.fetch.get import available

    for name, entry in available().items():
        out.print(f"  {name:<22} {entry.about}", soft_wrap=True, markup=False)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def _mapping(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise UserError(f"--map takes OLD=NEW, for example --map /old/data=/new/data, but {pair!r} came.")
    return dict(pair.split("=", 1) for pair in pairs)  # type: ignore[misc]


def _refuse_cradv(mapping: dict[str, str] | None, exact: bool = False) -> None:
    """Options of CrAdv's files mean nothing in our own."""
    if mapping or exact:
        raise UserError(
            f"{'--map' if mapping else '--cradv-exact'} is for CrAdv task files; this is an experiment file "
            "of Limen."
        )


def _device(name: str) -> str:
    """The device, or cpu with a notice if this machine has none such."""
    import torch

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        out.print(
            f"device {name} is not available here, using cpu ({str(error).splitlines()[0]})", style="yellow"
        )
        return "cpu"
    return name


def _jobs(asked: int, device: str) -> int:
    """Cells computed side by side: as many as asked for, else one per core."""
    return asked or (os.cpu_count() or 1 if device == "cpu" else 1)


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
    _refuse_cradv(mapping, cradv_exact)
    experiment = read_experiment(content, file, limit)
    where = folder or _folder(experiment.name, resume)
    out.print(f"run folder: {where}", soft_wrap=True)
    begun = time.perf_counter()
    with resume_hint(where):
        with Bar(out) as bar:
            there = _device(device)
            summary = run_experiment(
                experiment, where, resume=resume, device=there, jobs=_jobs(jobs, there), progress=bar
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
            who = [cell["labels"]["defense"], attack, *([_varied(cell["variable"])] if varied else [])]
            if cell["status"] == "failed":
                table.add_row(*who, "failed", cell["error"][:60])
            else:
                table.add_row(*who, str(n), *(_number(c, values.get(c)) for c in present))
    for union in unions:
        under = "" if any("budget" in path for path in union["variable"]) else f", {union['budget']}"
        who = [union["defense"], union["attack"] + under, *([_varied(union["variable"])] if varied else [])]
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


def _varied(variable: dict[str, Any] | None) -> str:
    return ", ".join(f"{k.rsplit('.', 1)[-1]} {v}" for k, v in (variable or {}).items())


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
