"""The command as a person types it. A user's mistake ends with one clear message and exit code 2, never a
traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 8}}


def limen(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    return subprocess.run(
        [sys.executable, "-m", "limen.cli.app", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "small.yaml"
    attacks = [None, {"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}}]
    path.write_text(yaml.safe_dump({"tasks": [{"nets": [NET], "attacks": attacks}]}))
    return path


def test_run_ends_with_a_table_and_the_path_of_a_report(file, tmp_path):
    done = limen("run", file, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "fgsm" in done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith("report:")
    assert (tmp_path / "run" / "report.html").stat().st_size > 5000
    again = limen("run", file, "--out", tmp_path / "run")
    assert again.returncode == 2
    assert "--resume" in again.stderr
    resumed = limen("run", file, "--out", tmp_path / "run", "--resume")
    assert resumed.returncode == 0
    rebuilt = limen("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert rebuilt.returncode == 0
    assert (tmp_path / "page.html").is_file()


def test_a_run_without_a_folder_goes_to_runs_and_resume_finds_the_newest(file, tmp_path):
    assert limen("run", file, cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("runs/small-*/report.html"))) == 1
    assert limen("run", file, "--resume", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("runs/small-*/report.html"))) == 1


def test_limit_and_an_absent_device_are_heeded(file, tmp_path):
    done = limen("run", file, "--out", tmp_path / "run", "--limit", 3, "--device", "cuda:7")
    assert done.returncode == 0, done.stderr
    assert "cuda:7 is not available here, using cpu" in done.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["cells"][0]["summary"]["n"] == 3


def test_plan_shows_cells_and_cost_without_running(file):
    done = limen("plan", file)
    assert done.returncode == 0, done.stderr
    assert "3 cells" in done.stdout  # clean, attacked, audited
    assert "fgsm" in done.stdout


def test_train_ends_with_the_path_of_the_weights(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"tasks": [{"task": {"name": "train", "epochs": 1}, "nets": [NET]}]}))
    done = limen("train", path, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "run" / "weights.safetensors") in done.stdout
    assert (tmp_path / "run" / "weights.safetensors").is_file()


def test_list_describe_and_schema_show_the_same_components():
    listed = limen("list", "attacks").stdout
    assert "pgd" in listed
    described = limen("describe", "pgd").stdout
    assert "steps: int (>= 1) = 40" in described
    assert "pgd" in json.dumps(json.loads(limen("schema").stdout)["$defs"]["attacks"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nowhere.yaml"), "no experiment file"),
        (("plan", "nowhere.yaml"), "no experiment file"),
        (("train", "nowhere.yaml"), "no experiment file"),
        (("report", "nowhere"), "nowhere"),
        (("describe", "pdg"), 'Did you mean "pgd"'),
        (("list", "potions"), "Kinds:"),
        (("new", "attack", "pgd"), "already"),
        (("data", "get", "minst"), "mnist"),
        (("measure", "nowhere", "nothing"), "nowhere"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(arguments, words, tmp_path):
    done = limen(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_file_that_is_wrong_ends_a_run_with_its_name(tmp_path):
    (tmp_path / "clips" / "yes").mkdir(parents=True)
    (tmp_path / "clips" / "yes" / "bad.wav").write_bytes(b"this is no audio")
    net = {
        "model": {"name": "keyword_cnn", "weights": "random"},
        "data": {"name": "clip_folder", "path": str(tmp_path / "clips")},
    }
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"tasks": [{"nets": [net]}]}))
    done = limen("run", "t.yaml", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_every_command_suffices():
    commands = [
        "demo",
        "run",
        "plan",
        "train",
        "report",
        "list",
        "describe",
        "schema",
        "new",
        "measure",
        "data",
    ]
    top = limen("--help").stdout
    for command in commands:
        assert command in top
        assert len(limen(command, "--help").stdout) > 100
