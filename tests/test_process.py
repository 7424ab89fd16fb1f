"""What a terminal, a pipe or the system does to a command: real processes, real streams. One message, and
nothing computed is lost."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
NET = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 8}}
BUDGET = {"name": "linf", "eps": 0.1}
STREAMS = {"stdout": 1, "stderr": 2}


@pytest.fixture
def file(tmp_path) -> Path:
    attacks = [None, {"name": "fgsm", "budget": BUDGET}, {"name": "pgd", "steps": 2, "budget": BUDGET}]
    return written(tmp_path, NET, attacks)


def written(folder: Path, net: dict[str, Any], attacks: list[Any]) -> Path:
    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump({"audit": False, "tasks": [{"nets": [net], "attacks": attacks}]}))
    return path


def limen(
    *words: object,
    cwd: Path,
    prepare: Callable[[], Any] | None = None,
    env: dict[str, str] | None = None,
    **streams: Any,
):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, "-m", "limen", *map(str, words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        command, cwd=cwd, env=environment, text=True, errors="replace", preexec_fn=prepare, **streams
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_infinity_sign_gets_the_results_all_the_same(file, tmp_path, encoding):
    done = limen(
        "run",
        file,
        "--out",
        "r",
        "--jobs",
        1,
        cwd=tmp_path,
        env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr
    assert "L? ? 0.1" in done.stdout
    assert (tmp_path / "r" / "report.html").is_file()


def test_a_report_that_cannot_be_written_ends_with_the_command_that_goes_on(file, tmp_path):
    run = ["run", file, "--out", tmp_path / "r", "--jobs", 1]
    assert limen(*run, cwd=tmp_path).returncode == 0
    (tmp_path / "r" / "report.html").unlink()
    (tmp_path / "r" / "report.html").symlink_to("/dev/full")
    done = limen(*run, "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "report.html: the disk is full. Finished cells are kept. Resume with:\n  limen run " in done.stderr


def no_more_than_six_gigabytes() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (6 * 2**30, 6 * 2**30))


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_model_that_does_not_fit_into_memory_is_one_sentence(tmp_path, command):
    wide = {**NET, "model": {"name": "mlp", "weights": "random", "hidden": [60_000, 60_000]}}
    done = limen(command, written(tmp_path, wide, [None]), cwd=tmp_path, prepare=no_more_than_six_gigabytes)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("limen: Out of memory. ")
    assert "Traceback" not in done.stderr


def test_a_model_of_absurd_width_is_refused_before_it_is_made(tmp_path):
    wide = {**NET, "model": {"name": "mlp", "weights": "random", "hidden": [10**9]}}
    done = limen("plan", written(tmp_path, wide, [None]), "--quick", cwd=tmp_path)
    assert done.returncode == 2
    assert "hidden" in done.stderr
    assert "65536" in done.stderr


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_closed_takes_what_is_printed(name, tmp_path):
    done = limen("list", "goals", cwd=tmp_path, prepare=lambda: os.close(STREAMS[name]), **{name: None})
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_a_folder_that_was_deleted_is_named_as_the_mistake(tmp_path):
    (tmp_path / "gone").mkdir()
    done = limen("version", cwd=tmp_path / "gone", prepare=lambda: os.rmdir(tmp_path / "gone"))
    assert done.returncode == 2
    assert done.stderr == "limen: The working folder was deleted: cd to another one.\n"


@pytest.fixture
def left():
    """The end of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_mistake(left, tmp_path, unbuffered):
    done = limen("list", "attacks", cwd=tmp_path, stdout=left, env={"PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_run_goes_on_to_its_report_when_the_reader_leaves(file, left, tmp_path):
    done = limen("run", file, "--out", "r", "--jobs", 1, cwd=tmp_path, stdout=left, stderr=left)
    assert done.returncode == 0
    assert (tmp_path / "r" / "report.html").is_file()


def test_ctrl_c_while_limen_is_imported_is_one_message(tmp_path):
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(signal.SIGINT)})\n")
    done = limen("version", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "limen: stopped.\n")
