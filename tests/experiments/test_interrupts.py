"""Ctrl-C, kill, and two runs at once: real processes, real signals."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NET = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 40}}
ENDLESS = {"name": "cw_l2", "search_steps": 9, "steps": 100_000, "abort_early": False}
CONTENT = {
    "audit": False,
    "tasks": [{"nets": [NET], "attacks": [None, ENDLESS, {**ENDLESS, "learning_rate": 0.02}]}],
}


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(CONTENT))
    return tmp_path / "t.yaml"


def limen(*arguments: object, cwd: Path) -> "subprocess.Popen[str]":
    """In a session of its own: everything it starts belongs to it, and a signal to the group reaches no one
    else."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "limen.cli.app", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def alive(session: int) -> list[int]:
    """Processes of the session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def computing(run: Path, cells: int) -> bool:
    return len(list(run.glob("cells/*.part"))) >= cells


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, said = process.communicate(timeout=300)
    wait_for(lambda: not alive(process.pid), "every process of the run has ended")
    return process.returncode, said


def check_stopped(process: "subprocess.Popen[str]", run: Path) -> list[str]:
    """Ended as it should; the command that goes on."""
    code, said = ended(process)
    assert code == 130, said
    assert "Traceback" not in said
    assert said.startswith("limen: stopped. Finished cells are kept. Resume with:\n  limen run t.yaml "), said
    assert not list(run.glob("cells/*.part"))
    assert not (run / ".lock").exists()
    return shlex.split(said.splitlines()[-1])


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("whole_group", [True, False])
def test_ctrl_c_prints_how_to_resume_and_leaves_no_process(file, tmp_path, jobs, whole_group):
    process = limen("run", "t.yaml", "--jobs", jobs, cwd=tmp_path)
    wait_for(
        lambda: any(computing(run, jobs) for run in tmp_path.glob("runs/t-*")), "cells are being computed"
    )
    (run,) = tmp_path.glob("runs/t-*")
    os.killpg(process.pid, signal.SIGINT) if whole_group else os.kill(process.pid, signal.SIGINT)
    later = check_stopped(process, run)
    assert later == [
        "limen",
        "run",
        "t.yaml",
        "--jobs",
        str(jobs),
        "--out",
        str(run.relative_to(tmp_path)),
        "--resume",
    ]


def test_the_printed_command_goes_on(file, tmp_path):
    process = limen("run", "t.yaml", "--jobs", 1, "--out", "r", cwd=tmp_path)
    wait_for(
        lambda: (
            (tmp_path / "r" / "log.txt").exists() and "done in" in (tmp_path / "r" / "log.txt").read_text()
        ),
        "a cell is done",
    )
    os.kill(process.pid, signal.SIGINT)
    later = check_stopped(process, tmp_path / "r")
    again = limen(*later[1:], cwd=tmp_path)
    wait_for(lambda: "3 cells, 1 done before" in (tmp_path / "r" / "log.txt").read_text(), "the run goes on")
    wait_for(lambda: computing(tmp_path / "r", 1), "it computes")
    os.kill(again.pid, signal.SIGINT)
    code, said = ended(again)
    assert code == 130, said


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_two_ctrl_c_in_a_row_leave_no_process(file, tmp_path, pause):
    process = limen("run", "t.yaml", "--jobs", 2, "--out", "r", cwd=tmp_path)
    wait_for(lambda: computing(tmp_path / "r", 2), "both workers compute")
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(pause)
    try:
        os.killpg(process.pid, signal.SIGINT)
    except ProcessLookupError:
        assert process.poll() is not None
    code, said = ended(process)
    assert code == 130, said
    assert "Traceback" not in said


def test_ctrl_c_while_the_workers_start_leaves_no_process_and_no_traceback(file, tmp_path):
    process = limen("run", "t.yaml", "--jobs", 2, "--out", "r", cwd=tmp_path)
    wait_for(lambda: len(alive(process.pid)) > 2, "the first worker starts")
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process)
    assert code == 130, said
    assert "Traceback" not in said


def test_ctrl_c_while_the_report_is_written_prints_how_to_go_on(tmp_path):
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"audit": False, "tasks": [{"nets": [NET]}]}))
    process = limen("run", "t.yaml", "--out", "r", cwd=tmp_path)
    wait_for(lambda: (tmp_path / "r" / "config.json").exists(), "the folder is there")
    os.mkfifo(tmp_path / "r" / "report.html")  # a pipe that is never read: the report waits there
    wait_for(
        lambda: (tmp_path / "r" / "summary.json").exists() and not (tmp_path / "r" / ".lock").exists(),
        "the cells are done",
    )
    os.kill(process.pid, signal.SIGINT)
    assert check_stopped(process, tmp_path / "r")[-1] == "--resume"


def test_a_worker_that_the_system_ends_is_one_message_and_leaves_no_process(file, tmp_path):
    process = limen("run", "t.yaml", "--jobs", 2, "--out", "r", cwd=tmp_path)
    wait_for(lambda: computing(tmp_path / "r", 2), "both workers compute")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    code, said = ended(process)
    assert code == 2, said
    assert said.startswith("limen: A worker process was killed by the system, often because memory ran out.")
    assert "--resume" in said
    assert len(said.splitlines()) == 1, said
    assert not list((tmp_path / "r").glob("cells/*.part"))


def test_a_second_run_into_the_folder_is_refused_and_names_the_first(file, tmp_path):
    first = limen("run", "t.yaml", "--jobs", 2, "--out", "r", cwd=tmp_path)
    wait_for(lambda: computing(tmp_path / "r", 2), "both workers compute")
    for options in ([], ["--resume"]):
        second = limen("run", "t.yaml", "--out", "r", *options, cwd=tmp_path)
        code, said = ended(second)
        assert code == 2
        assert f"r is being written by process {first.pid} on {os.uname().nodename} since " in said
        assert "--out" in said
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    wait_for(lambda: not alive(first.pid), "the workers died with it")
    third = limen(
        "run", "t.yaml", "--jobs", 1, "--out", "r", "--resume", cwd=tmp_path
    )  # a killed run leaves no lock behind
    wait_for(
        lambda: f'"pid": {third.pid}' in (tmp_path / "r" / ".lock").read_text(),
        "the third run holds the lock",
    )
    os.kill(third.pid, signal.SIGKILL)
    third.communicate()
