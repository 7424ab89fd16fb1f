"""Training in two processes gives the weights of training in one, and only the first process writes."""

import json
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

PROGRAM = """
import json, sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from limen.core.components import parse
from limen.models.base.load import load_model
from limen.models.training.loop import train
from limen.models.training.options import TrainOptions
from limen.objectives.base.objective import objective_for

folder, rank, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
if count > 1:
    distributed.init_process_group(
        "gloo", f"file://{folder}/meeting", timedelta(seconds=300), world_size=count, rank=rank
    )
component, options = parse("data", {"name": "digits", "split": "train", "limit": 45})
data = component.function(options)
# two processes begin from different weights; those of the first are taken
model = load_model({"name": "mlp", "weights": "random", "init_seed": rank})
options = TrainOptions(epochs=2, batch_size=11, optimizer="adamw", lr=0.01, shift_px=1, clip_norm=0.5, patience=5)
history = train(model, data, data, options, folder / f"out{rank}", objective=objective_for(model), seed=2)
(folder / f"history{rank}.json").write_text(json.dumps(history))
if count > 1:
    distributed.barrier()  # a process that leaves early can bring the other down while it closes its connections
    distributed.destroy_process_group()
"""


def run(folder: Path, count: int) -> None:
    folder.mkdir()
    start = lambda rank: subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(rank), str(count)], stderr=subprocess.PIPE, text=True
    )
    for rank, process in enumerate([start(rank) for rank in range(count)]):
        errors = process.communicate(timeout=500)[1]
        trained = (folder / f"history{rank}.json").exists()
        assert process.returncode == 0, f"process {rank}, training finished: {trained}\n{errors}"


def test_two_processes_give_the_weights_of_one_and_the_second_writes_nothing(tmp_path):
    run(tmp_path / "one", 1)
    run(tmp_path / "two", 2)
    alone = load_file(tmp_path / "one/out0/weights.safetensors")
    together = load_file(tmp_path / "two/out0/weights.safetensors")
    assert alone.keys() == together.keys()
    for (
        name,
        value,
    ) in alone.items():  # 45 samples in steps of 11: the last step has one sample, so one idle process
        torch.testing.assert_close(together[name], value, rtol=1e-4, atol=1e-5)
    assert not (tmp_path / "two/out1").exists()
    histories = [json.loads((tmp_path / f"two/history{rank}.json").read_text()) for rank in (0, 1)]
    assert histories[0] == histories[1] == json.loads((tmp_path / "two/out0/history.json").read_text())
    single = json.loads((tmp_path / "one/history0.json").read_text())
    for row, other in zip(histories[0], single, strict=True):
        torch.testing.assert_close(row["loss"], other["loss"], rtol=1e-4, atol=1e-5)
