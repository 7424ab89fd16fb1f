"""Cells -> run folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from limen.audio.files import read_clip, write_clip
from limen.core.errors import UserError
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.experiments.folder import read_table

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 24}}
CONTENT = {
    "name": "t",
    "examples": 2,
    "audit": False,
    "tasks": [
        {
            "nets": [NET],
            "defenses": [None, {"name": "bit_depth"}],
            "attacks": [
                None,
                {"name": "random_noise", "budget": {"name": "l2", "eps": 0.5}},
                {"name": "pgd", "steps": 5, "budget": {"name": "linf", "eps": 0.05}},
            ],
            "sweep": {"attack.budget.eps": [0.02, 0.05]},
        }
    ],
}


def rows(folder: Path) -> list[dict]:
    return read_table(folder / "rows.parquet")


def close(a: list[dict], b: list[dict], tolerance: float) -> bool:
    assert len(a) == len(b)
    for one, two in zip(a, b, strict=True):
        assert one.keys() == two.keys()
        for key in one:
            if isinstance(one[key], float):
                assert two[key] == pytest.approx(one[key], abs=tolerance), key
            else:
                assert one[key] == two[key], key
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(Experiment.model_validate(CONTENT), folder)
    return folder


def test_a_run_folder_holds_config_environment_rows_summary_examples_and_log(whole):
    for name in ("config.json", "environment.json", "rows.parquet", "summary.json", "log.txt"):
        assert (whole / name).is_file(), name
    config = json.loads((whole / "config.json").read_text())
    assert config["batch_size"] == 64  # defaults are written out
    assert json.loads((whole / "environment.json").read_text())["torch"]
    summary = json.loads((whole / "summary.json").read_text())
    assert len(summary["cells"]) == 10
    cell = next(c for c in summary["cells"] if c["labels"]["attack"] == "pgd")
    assert cell["summary"]["n"] == 24
    assert 0 <= cell["summary"]["columns"]["success"]["low"] <= cell["summary"]["columns"]["success"]["mean"]
    assert (whole / "cells" / cell["id"] / "examples" / "0_adversarial.png").is_file()


def test_the_files_of_a_run_hold_the_very_change_that_was_bounded_and_reported(tmp_path):
    """Also where the data does not lie on the grid of 16-bit files, because it had to be resampled."""
    draw = torch.Generator().manual_seed(0)
    for name in ("down", "go"):
        for number in range(2):
            write_clip(
                tmp_path / "clips" / "test" / name / f"{number}.wav",
                0.2 * torch.randn(8000, generator=draw),
                8000,
            )
    net = {
        "model": {"name": "keyword_cnn", "weights": "random", "classes": ["down", "go"]},
        "data": {"name": "clip_folder", "path": str(tmp_path / "clips"), "duration_s": 1.0},
    }
    attacks = [{"name": "random_noise", "budget": {"name": "snr", "snr_db": 70}}]
    run(
        Experiment.model_validate(
            {"name": "t", "tasks": [{"nets": [net], "attacks": attacks}], "audit": False}
        ),
        tmp_path / "run",
    )
    for examples in (tmp_path / "run").glob("cells/*/examples.json"):
        for example in json.loads(examples.read_text()):
            clean, adversarial = (
                read_clip(examples.parent / example["files"][k], 16000).double()
                for k in ("clean", "adversarial")
            )
            snr_db = 10 * torch.log10(clean.square().sum() / (adversarial - clean).square().sum())
            assert snr_db >= 70
            assert example["metrics"]["snr_db"] == pytest.approx(float(snr_db), abs=1e-4)


def test_every_row_carries_its_id_and_no_row_is_dropped(whole):
    table = rows(whole)
    assert len(table) == 10 * 24
    for cell in {row["cell"] for row in table}:
        assert len({row["id"] for row in table if row["cell"] == cell}) == 24


def test_what_cannot_be_computed_is_null_with_a_reason(whole):
    clean = [row for row in rows(whole) if row["attack"] == "none"]
    assert all(
        row["dissimilarity_l2"] == 0 or "dissimilarity_l2" in json.loads(row["missing"]) for row in clean
    )


def test_batch_size_changes_no_result(whole, tmp_path):
    run(Experiment.model_validate({**CONTENT, "batch_size": 5}), tmp_path / "run")
    assert close(rows(whole), rows(tmp_path / "run"), 1e-4)


def test_cells_side_by_side_give_the_same_rows(whole, tmp_path):
    run(Experiment.model_validate(CONTENT), tmp_path / "run", jobs=2)
    assert close(rows(whole), rows(tmp_path / "run"), 1e-4)


def test_an_error_in_one_of_several_processes_ends_the_run_with_its_message(tmp_path):
    bad = {**CONTENT, "tasks": [{"nets": [NET], "attacks": [REFUSED, None]}]}
    with pytest.raises(UserError, match="supports no target"):
        run(Experiment.model_validate(bad), tmp_path / "run", jobs=2)


def test_a_universal_perturbation_is_crafted_once_and_kept(tmp_path):
    uap = {"name": "uap", "samples": 16, "epochs": 1, "budget": {"name": "linf", "eps": 0.1}}
    tasks = [
        {"nets": [NET], "attacks": [uap]},
        {"task": {"name": "samples"}, "nets": [NET], "attacks": [uap]},
    ]
    run(Experiment.model_validate({"name": "t", "audit": False, "tasks": tasks}), tmp_path / "run")
    assert len(list((tmp_path / "run" / "crafted").glob("*.safetensors"))) == 1


def test_a_run_killed_at_any_moment_resumes_to_identical_rows(whole, tmp_path):
    """The program is killed (SIGKILL) again and again until it gets through."""
    file, folder = tmp_path / "t.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(CONTENT))
    code = (
        "from pathlib import Path; import torch; torch.set_num_threads(1)\n"
        "from limen.experiments.engine import run; from limen.experiments.file import load_file, "
        "read_experiment\n"
        f"p = Path({str(file)!r}); run(read_experiment(load_file(p), p), Path({str(folder)!r}), resume=True)"
    )
    kills = 0
    for patience in (2.5, 3.0, 3.5, 600):
        process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        elif process.returncode == 0:
            break
    assert process.returncode == 0
    assert close(rows(whole), rows(folder), 1e-4)
    assert not list(folder.glob("cells/*.part"))


def test_resuming_a_finished_run_computes_nothing(whole):
    before = {p: p.stat().st_mtime_ns for p in (whole / "cells").rglob("*.parquet")}
    run(Experiment.model_validate(CONTENT), whole, resume=True)
    assert before == {p: p.stat().st_mtime_ns for p in (whole / "cells").rglob("*.parquet")}


def test_a_folder_that_holds_a_run_is_not_overwritten(whole):
    with pytest.raises(UserError, match="--resume"):
        run(Experiment.model_validate(CONTENT), whole)
    with pytest.raises(UserError, match="different: seed"):
        run(Experiment.model_validate({**CONTENT, "seed": 9}), whole, resume=True)


REFUSED = {"name": "deepfool", "goal": {"name": "target_class", "target": 1}}


def test_safe_mode_records_a_failed_cell_and_goes_on(tmp_path):
    bad = {**CONTENT, "safe_mode": True, "tasks": [{"nets": [NET], "attacks": [REFUSED, None]}]}
    summary = run(Experiment.model_validate(bad), tmp_path / "run")
    assert [c["status"] for c in summary["cells"]] == ["failed", "done"]
    assert "supports no target" in summary["cells"][0]["error"]
    with pytest.raises(UserError, match="supports no target"):
        run(Experiment.model_validate({**bad, "safe_mode": False}), tmp_path / "other")


def test_a_failed_cell_is_run_again_on_resume(tmp_path):
    bad = {**CONTENT, "safe_mode": True, "tasks": [{"nets": [NET], "attacks": [REFUSED, None]}]}
    run(Experiment.model_validate(bad), tmp_path / "run")
    run(Experiment.model_validate(bad), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "log.txt").read_text().count(" failed in ") == 2


def test_training_leaves_weights_that_a_later_run_uses(tmp_path):
    entry = {
        "task": {"name": "train", "epochs": 8, "lr": 0.005},
        "nets": [{"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits"}}],
    }
    summary = run(
        Experiment.model_validate({"name": "t", "audit": False, "tasks": [entry]}), tmp_path / "run"
    )
    trained = summary["cells"][0]["summary"]["columns"]["correct"]["mean"]
    assert trained > 0.85
    weights = tmp_path / "run" / "cells" / summary["cells"][0]["id"] / "weights.safetensors"
    net = {"model": {"name": "mlp", "weights": str(weights)}, "data": {"name": "digits"}}
    again = run(Experiment.model_validate({"name": "u", "tasks": [{"nets": [net]}]}), tmp_path / "again")
    assert again["cells"][0]["summary"]["columns"]["correct"]["mean"] == pytest.approx(trained)


def test_an_attack_on_another_net_is_judged_on_the_victim(tmp_path):
    other = {"models": [{"name": "mlp", "weights": "random", "init_seed": 5}]}
    attack = {"name": "pgd", "steps": 5, "budget": {"name": "linf", "eps": 0.05}}
    entry = {"nets": [NET], "attacks": [attack, {**attack, "surrogate": other}]}
    summary = run(
        Experiment.model_validate({"name": "t", "audit": False, "tasks": [entry]}), tmp_path / "run"
    )
    direct, transferred = (c["summary"]["columns"]["fooled"]["mean"] for c in summary["cells"])
    assert transferred <= direct
    assert summary["cells"][1]["labels"]["attack"] == "pgd on mlp"


def test_constrained_accuracy_gives_a_curve_that_starts_clean_and_falls(tmp_path):
    entry = {
        "task": {"name": "constrained_accuracy", "constraint": "linf", "values": [0, 0.05, 0.4]},
        "nets": [{"model": {"name": "cnn"}, "data": NET["data"]}],
        "attacks": [{"name": "pgd", "steps": 10, "budget": {"name": "linf", "eps": 1}}, {"name": "deepfool"}],
    }
    summary = run(
        Experiment.model_validate({"name": "t", "audit": False, "tasks": [entry]}), tmp_path / "run"
    )
    for cell in summary["cells"]:
        curve = cell["summary"]["result"]
        assert curve["accuracy"][0] > 0.9
        assert curve["accuracy"][-1] < 0.2
        assert curve["n"] == 24
        assert curve["fooling_rate"][0] == 0


OPENED = """
import os
from pathlib import Path
from torch import nn

def net():
    Path("opened-by.txt").open("a").write(f"{os.getpid()}\\n")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


def test_with_workers_the_driver_opens_no_model(tmp_path, monkeypatch):
    (tmp_path / "counted_nets.py").write_text(OPENED)
    monkeypatch.chdir(tmp_path)
    model = {"name": "torch_module", "classes": 10, "factory": "counted_nets:net"}
    net = {"model": model, "data": {"name": "digits", "limit": 4}}
    content = {
        "name": "t",
        "audit": False,
        "tasks": [{"nets": [net], "defenses": [None, {"name": "bit_depth"}]}],
    }
    run(Experiment.model_validate(content), tmp_path / "run", jobs=2)
    opened = [int(line) for line in (tmp_path / "opened-by.txt").read_text().split()]
    assert opened
    assert os.getpid() not in opened
    assert len(opened) == len(set(opened)), "a process opened the same model twice"


def test_an_unknown_engine_is_an_error_that_lists_the_engines(tmp_path):
    with pytest.raises(UserError, match=r'There is no engine "rey".*inline, processes'):
        run(Experiment.model_validate(CONTENT), tmp_path / "run", engine="rey")
