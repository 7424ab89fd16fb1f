"""The run folder: the only link from computing to reports and listening tests. Cells are written
atomically."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from limen.audio.files import write_clip
from limen.core.atomic import read_json, write_atomic
from limen.core.errors import UserError
from limen.experiments.file import Experiment
from limen.experiments.plan import PlannedCell
from limen.images.files import write_picture
from limen.metrics.base.apply import Metric, columns
from limen.metrics.base.summary import summarise
from limen.tasks.base.cell import Example, Outcome
from limen.tasks.base.columns import TASK_COLUMNS, all_columns
from limen.tasks.base.task import parse_task

EXAMPLE_KEYS = ("id", "label", "clean_prediction", "adversarial_prediction", "success", "already")
"""Keys of an example in examples.json; its other columns are in `metrics`."""


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically."""
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False, default=_plain).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"Cannot write a {type(value).__name__} as JSON.")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write Parquet with a column for every key. Values that could not be computed are null; `missing` holds
    the reasons as JSON."""
    columns: dict[str, list[Any]] = {
        key: [row.get(key) for row in rows] for key in dict.fromkeys(k for row in rows for k in row)
    }
    if "missing" in columns:
        columns["missing"] = [
            json.dumps(m) if isinstance(m, dict) and m else m or None for m in columns["missing"]
        ]
    arrays = {key: _array(values) for key, values in columns.items()}
    content = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), content)
    write_atomic(path, content.getvalue().to_pybytes())


def _array(values: list[Any]) -> pa.Array:
    if all(isinstance(v, int | float) or v is None for v in values) and any(
        isinstance(v, float) for v in values
    ):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if all(isinstance(v, int | float | None) for v in values):
        return pa.array(values)
    return pa.array([None if v is None else str(v) for v in values])


def read_table(path: Path) -> list[dict[str, Any]]:
    try:
        return pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        state = "damaged" if path.exists() else "missing"
        raise UserError(
            f"{path} is {state} ({str(error).splitlines()[0][:150]}). Run the experiment again with --resume."
        ) from None


def start_cell(run: Path, cell: PlannedCell) -> Path:
    """The folder in which a cell is computed, empty except for the checkpoint of an interrupted run."""
    folder = run / "cells" / f"{cell.id}.part"
    _clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def drop_unfinished(run: Path, cells: Iterable[PlannedCell]) -> None:
    """Remove unfinished cells, as far as the file system allows."""
    for cell in cells:
        with suppress(OSError):
            _clear(run / "cells" / f"{cell.id}.part")


def _clear(folder: Path) -> None:
    """Remove an unfinished cell except its checkpoint."""
    for item in folder.iterdir() if folder.exists() else ():
        if not item.name.startswith("checkpoint"):
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    with suppress(OSError):  # the folder does not exist, or holds a checkpoint
        folder.rmdir()


def finish_cell(
    run: Path,
    cell: PlannedCell,
    folder: Path,
    facts: dict[str, Any],
    outcome: Outcome,
    metrics: Sequence[Metric],
) -> None:
    """Write the results of the cell and move it into place."""
    task, options = parse_task(cell.spec["task"])
    declared = {**TASK_COLUMNS, **options.columns(), **columns(metrics)}
    shown = all_columns(outcome.rows, declared)
    summary = summarise(outcome.rows, shown, facts["kind"], facts.get("output"))
    write_json(
        folder / "cell.json",
        {
            "id": cell.id,
            "order": cell.order,
            "task": task.name,
            "task_info": {"title": options.title or task.name, "diagnostic": options.diagnostic},
            "task_index": cell.task_index,
            "labels": cell.labels,
            "variable": cell.variable,
            "spec": cell.spec,
            **facts,
        },
    )
    write_table(folder / "rows.parquet", outcome.rows)
    write_json(
        folder / "summary.json",
        {"n": len(outcome.rows), "columns": summary, "result": outcome.result},
    )
    write_json(folder / "examples.json", _write_examples(folder / "examples", outcome.examples, facts))
    for checkpoint in folder.glob("checkpoint*"):
        checkpoint.unlink()
    final = run / "cells" / cell.id
    if final.exists():  # a failed cell that is run again
        shutil.rmtree(final)
    os.replace(folder, final)


def _write_examples(folder: Path, examples: Iterable[Example], facts: dict[str, Any]) -> list[dict[str, Any]]:
    written = []
    for number, example in enumerate(examples):
        folder.mkdir(exist_ok=True)
        parts = {
            "clean": example.clean,
            "perturbation": example.adversarial - example.clean,
            "adversarial": example.adversarial,
        }
        files = {
            name: _write_sample(folder / f"{number}_{name}", name, x.cpu(), facts)
            for name, x in parts.items()
        }
        written.append(
            {
                **{k: example.row.get(k) for k in EXAMPLE_KEYS},
                "files": {k: f"examples/{v}" for k, v in files.items()},
                "metrics": {k: v for k, v in example.row.items() if k not in (*EXAMPLE_KEYS, "missing")},
            }
        )
    return written


def _write_sample(path: Path, name: str, x: torch.Tensor, facts: dict[str, Any]) -> str:
    if facts["kind"] == "clip":
        write_clip(path.with_suffix(".wav"), x, facts["rate_hz"])
        return path.with_suffix(".wav").name
    # a perturbation has values in [-1, 1]: zero is shown as grey
    write_picture(path.with_suffix(".png"), (x / 2 + 0.5) if name == "perturbation" else x)
    return path.with_suffix(".png").name


def is_done(run: Path, cell: PlannedCell, say: Callable[[str], None]) -> bool:
    """True if the cell is finished, did not fail, and its files can be read. A damaged cell is reported."""
    folder = run / "cells" / cell.id
    if not folder.is_dir():
        return False
    try:
        status = read_json(folder / "cell.json").get("status")
        for name, shape in (("summary.json", dict), ("examples.json", list)):
            read_json(folder / name, shape)
        pq.read_metadata(folder / "rows.parquet")
    except (UserError, OSError, pa.ArrowException):
        say(f"cells/{cell.id} is damaged and is computed again: {cell.description}")
        return False
    return status == "done"


def close_run(run: Path, experiment: Experiment, cells: list[PlannedCell]) -> dict[str, Any]:
    """Write the rows and summaries of all finished cells into one table and one summary."""
    rows: list[dict[str, Any]] = []
    summaries = []
    for cell in cells:
        folder = run / "cells" / cell.id
        if not folder.is_dir():
            continue
        facts, summary = read_json(folder / "cell.json"), read_json(folder / "summary.json")
        summaries.append({**facts, "order": cell.order, "summary": summary})
        identity = {
            "cell": cell.id,
            "task": facts["task"],
            **cell.labels,
            "variable": json.dumps(cell.variable) if cell.variable else None,
        }
        rows += [{**identity, **row} for row in read_table(folder / "rows.parquet")]
    write_table(run / "rows.parquet", rows)
    summary = {"name": experiment.name, "description": experiment.description, "cells": summaries}
    write_json(run / "summary.json", summary)
    return summary
