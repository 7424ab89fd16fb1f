"""The command `limen plan`."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from limen.cli.options import (
    Device,
    File,
    Jobs,
    Limit,
    Map,
    available_device,
    job_count,
    out,
    path_mapping,
    refuse_cradv_options,
    varied_text,
)
from limen.core.errors import UserError

app = typer.Typer()


@app.command()
def plan(
    file: File,
    limit: Limit = None,
    device: Device = "cpu",
    jobs: Jobs = 0,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Only list the cells, without loading models to estimate the time."),
    ] = False,
    map: Map = None,
) -> None:
    """Show the cells of an experiment and estimate their time by running each on a few samples."""
    import torch

    from limen.experiments.cell_factory import CellFactory
    from limen.experiments.cradv.runner import is_cradv
    from limen.experiments.estimate import Estimate, samples_of, threads_of, total
    from limen.experiments.file import load_file, read_experiment
    from limen.experiments.needs import (
        available_memory_mb,
        gradients_per_sample,
        jobs_that_fit,
        memory_text,
        most_memory_mb,
        needs_of,
    )
    from limen.experiments.plan import plan as make_plan

    start = time.process_time()  # a run begins with these imports too
    content, mapping = load_file(file), path_mapping(map or [])
    if is_cradv(content):
        from limen.experiments.cradv.costs import show

        return show(content, file, mapping=mapping, limit=limit, device=device, quick=quick, console=out)
    refuse_cradv_options(mapping)
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
        "memory",
        "about",
        box=None,
        header_style="bold",
    )
    spans, failures = [], []
    there = available_device(device)
    memory_mb = [needs_of(cell.spec, experiment.batch_size).memory_mb for cell in cells]
    jobs = jobs_that_fit(min(job_count(jobs, there), len(cells)), memory_mb, available_memory_mb())
    if not quick:
        torch.set_num_threads(threads_of(jobs))
    factory = CellFactory(torch.device(there), experiment.batch_size, Path())
    estimate = Estimate(factory)
    with out.status("running each cell on a few samples") if out.is_terminal and not quick else nullcontext():
        for cell, cell_mb in zip(cells, memory_mb, strict=True):
            samples = gradients = about = "-"
            if not quick:
                try:
                    n = samples_of(cell, factory)
                    spans.append(estimate.seconds(cell))
                    samples, gradients, about = (
                        str(n),
                        f"{n * gradients_per_sample(cell.spec):,.0f}",
                        str(spans[-1]),
                    )
                except UserError as error:
                    about = "fails"
                    failures.append(f"{cell.description}: {error}")
            task, labels = cell.spec["task"]["name"], cell.labels
            table.add_row(
                task,
                labels["net"],
                labels["defense"],
                labels["attack"],
                varied_text(cell.variable),
                samples,
                gradients,
                memory_text(cell_mb),
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
        f"{how}, metrics, audits and the report included; memory at most about "
        f"{memory_text(most_memory_mb(jobs, memory_mb))}",
        soft_wrap=True,
    )
    for failure in failures:
        out.print(f"fails: {failure}", style="yellow", soft_wrap=True, markup=False)
    if failures:
        raise typer.Exit(2)
