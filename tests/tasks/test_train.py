"""The task train: what it judges is what its labels say."""

import json

import pyarrow.parquet as parquet
import torch

from limen.core.components import parse
from limen.defenses.base.compose import defended
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.models.base.load import load_model

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 300}}


def test_a_net_trained_in_a_cell_with_a_defense_is_judged_behind_it(tmp_path):
    tasks = [
        {
            "task": {"name": "train", "epochs": 3, "lr": 0.01},
            "nets": [NET],
            "attacks": [None],
            "defenses": [None, {"name": "bit_depth", "bits": 1}],
        }
    ]
    run(Experiment.model_validate({"name": "t", "tasks": tasks, "audit": False}), tmp_path / "run")
    batch = parse("data", NET["data"])[0].function(parse("data", NET["data"])[1]).all()
    seen = {}
    for cell in (tmp_path / "run" / "cells").iterdir():
        told = json.loads((cell / "cell.json").read_text())
        model = load_model({**NET["model"], "weights": str(cell / "weights.safetensors")})
        defense = told["spec"]["defense"]
        judged = defended(model, defense or [])
        with torch.no_grad():
            right = (judged(batch.x).argmax(1) == batch.y).tolist()
        rows = parquet.read_table(cell / "rows.parquet").to_pylist()
        assert [
            bool(row["correct"]) for row in sorted(rows, key=lambda row: batch.ids.index(row["id"]))
        ] == right
        seen[told["labels"]["defense"]] = sum(right)
    assert len(seen) == 2
    assert len(set(seen.values())) == 2, (
        "one bit a pixel changes what the net sees, so the two cells must differ"
    )
