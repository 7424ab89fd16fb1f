"""A cell is a function of its spec and the run folder."""

import json
import subprocess
import sys

import pytest

from limen.experiments.engine import run
from limen.experiments.file import Experiment

COMPUTE = """
import json, sys
from pathlib import Path
import torch
from limen.experiments.cell_factory import CellFactory
from limen.experiments.engine import Quiet, run_cell
from limen.experiments.plan import PlannedCell

cell, run = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
names = dict.fromkeys(cell["labels"], "other labels")
planned = PlannedCell(order=7, task_index=3, spec=cell["spec"], labels=names, variable=None)
assert planned.id == cell["id"]
run_cell(planned, CellFactory(torch.device("cpu"), 64, run / "crafted"), Quiet(), run=run, safe_mode=False)
"""
NET = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 6}}
LINF = {"name": "linf", "eps": 0.1}
CONTENT = {
    "name": "t",
    "seed": 3,
    "audit": False,
    "tasks": [
        {
            "nets": [NET],
            "defenses": [[{"name": "crop_rescale", "num_samples": 2}, {"name": "bit_depth"}]],
            "attacks": [
                {"name": "random_noise", "budget": LINF},
                {"name": "pgd", "steps": 3, "budget": LINF},
                {"name": "universal", "samples": 8, "epochs": 1, "budget": LINF},
            ],
            "sweep": {"attack.steps": [2, 4]},
        }
    ],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(Experiment.model_validate(CONTENT), folder)
    return folder


@pytest.mark.parametrize("attack", ["random_noise", "pgd", "universal"])
def test_a_cell_computed_alone_in_a_new_process_gives_the_rows_of_the_run(attack, finished, tmp_path):
    specs = [(path, json.loads((path / "cell.json").read_text())) for path in (finished / "cells").iterdir()]
    path = [path for path, cell in specs if cell["spec"]["attack"]["name"] == attack][-1]
    subprocess.run([sys.executable, "-c", COMPUTE, path / "cell.json", tmp_path], check=True, timeout=300)
    alone = tmp_path / "cells" / path.name
    for name in ("rows.parquet", "summary.json", "examples.json"):
        assert (alone / name).read_bytes() == (path / name).read_bytes(), name
