"""The disk full under a study that is being served: nothing acknowledged is lost, listeners are asked to
wait, the operator is told."""

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import studies
from serving import Server, Visitor

ADMIN = {"Authorization": "Bearer sesame"}
STEPS: list[Any] = ["consent", {"name": "abx", "trials": 4}, "comments"]


class FullDisk:
    """A file system of 4 MB."""

    says = "is full"

    def __init__(self, folder: Path):
        self.folder = folder

    def fill(self, server: Server) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (2**16, 2**12, 1):
                try:
                    while True:
                        ballast.write(b"x" * size)
                except OSError:
                    pass

    def free(self, server: Server) -> None:
        (self.folder / "ballast").unlink()


class LargestFile:
    """A limit of the process: no file of its may grow any more."""

    says = "disk I/O error"

    def __init__(self, folder: Path):
        self.folder = folder

    def fill(self, server: Server) -> None:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def free(self, server: Server) -> None:
        resource.prlimit(
            server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )


@pytest.fixture(params=[LargestFile, *([FullDisk] if os.geteuid() == 0 else [])])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Something that can be full; only root may make a file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        request.param is FullDisk
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]).returncode == 0
    )
    try:
        yield request.param(folder) if mounted else LargestFile(folder)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def listen(*words: object, largest_file: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    command = [sys.executable, "-m", "limen.cli.app", "listen", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)


def one_sentence(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("limen: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def monitor(study: Path) -> str:
    done = listen("monitor", study)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_answers_wait_while_the_disk_is_full_and_the_operator_is_told_everywhere(small: Any) -> None:
    study = studies.write(small.folder / "s", STEPS)
    with Server(study) as server:
        visitor = Visitor(server)
        state = visitor.begin()[1]
        told = []
        for k in range(2):
            reply = visitor.answer(state, f"a{k}")
            assert reply[0] == 200
            told.append(f"a{k}")
            state = reply[1]["state"]
        assert "STORED" not in server.log()

        small.fill(server)
        for _ in range(3):
            status, refusal = visitor.answer(state, "a2")  # its sounds are heard all the same
            assert status == 503
            assert "Not stored yet" in refusal["error"]
            assert "keeps your answer" in refusal["error"]
        assert Visitor(server, "127.0.1.1").begin()[0] == 503
        assert visitor.state() == state
        log = server.log("ANSWERS ARE NOT BEING STORED since 20")
        assert small.says in log
        assert "small.db" in log
        assert log.count("NOT BEING STORED") == 1  # once a minute, not once an answer
        progress = json.loads(visitor.ask("GET", "/api/admin/progress", **ADMIN)[1])
        assert "ANSWERS ARE NOT BEING STORED" in progress["storage_problem"]
        assert progress["answers"] == 2
        page = visitor.ask("GET", "/admin", **ADMIN)[1].decode()
        assert 'role="alert"><strong>ANSWERS ARE NOT BEING STORED' in page
        if isinstance(small, FullDisk):  # a limit of the server's process is none of the monitor's
            said = monitor(study)
            assert "ANSWERS ARE NOT BEING STORED" in said
            assert "is full (0.0 MB free)" in said
            assert "2 answers" in said

        small.free(server)
        status, reply = visitor.answer(state, "a2")
        assert (status, reply["again"]) == (200, False)
        assert "attempts had failed since" in server.log("Answers are stored again")
        assert visitor.take(reply["state"])["done"]
        assert (
            "NOT BEING STORED"
            not in json.loads(visitor.ask("GET", "/api/admin/progress", **ADMIN)[1])["storage_problem"]
        )
    database = sqlite3.connect(small.folder / "s" / "small.db")
    attempts = Counter(attempt for (attempt,) in database.execute("SELECT attempt FROM answers ORDER BY id"))
    assert list(attempts)[:3] == [*told, "a2"]
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


@pytest.mark.parametrize("free", [20_000, 300_000, 1_000_000])
def test_a_simulation_that_does_not_fit_is_one_sentence_and_leaves_no_part_of_a_study(
    small: Any, free: int
) -> None:
    study = studies.write(small.folder / "s", STEPS, listeners=60)
    if isinstance(small, FullDisk):
        small.fill(None)  # type: ignore[arg-type]
        ballast = small.folder / "ballast"
        os.truncate(ballast, ballast.stat().st_size - free)
        done = listen("simulate", study)
    else:
        done = listen("simulate", study, largest_file=free)
    one_sentence(done)
    assert not list(study.parent.glob("simulated.db*"))


def test_commands_that_cannot_write_say_so_in_one_sentence(small: Any) -> None:
    study = studies.write(small.folder / "s", STEPS)
    assert listen("simulate", study, "--listeners", 2).returncode == 0
    database = study.parent / "simulated.db"
    where = ["--database", f"sqlite:///{database}"]
    limit = {"largest_file": 1}
    if isinstance(small, FullDisk):
        small.fill(None)  # type: ignore[arg-type]
        limit = {}
    for command in (["close", study, *where], ["erase", study, 1, *where], ["simulate", study]):
        done = listen(*command, **limit)
        one_sentence(done)
        assert "simulated.db" in done.stderr
    assert database.is_file()  # earlier answers stay where there is no room for others


def test_a_database_that_is_damaged_is_named_in_one_sentence(tmp_path: Path) -> None:
    study = studies.write(tmp_path / "s", STEPS)
    assert listen("simulate", study, "--listeners", 8).returncode == 0
    database = study.parent / "simulated.db"
    content = bytearray(database.read_bytes())
    content[len(content) // 2 :] = bytes(255 for _ in content[len(content) // 2 :])
    database.write_bytes(content)
    done = listen("export", study, tmp_path / "a.csv", "--simulated")
    one_sentence(done)
    assert "simulated.db reports: database disk image is malformed" in done.stderr
