"""`limen listen backup`: whole while the server writes, opens and analyses, overwrites nothing."""

import errno
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import studies
from serving import Server, Visitor
from typer.testing import CliRunner

from limen.cli.app import app
from limen.core.errors import UserError
from limen.listening.server.backup import _publish, backup
from limen.listening.server.store import Store

STEPS = ["consent", {"name": "abx", "trials": 8}]


def listen(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["listen", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_backup_of_a_study_being_served_is_whole_and_holds_what_was_acknowledged_before(
    tmp_path: Path,
) -> None:
    study = studies.write(tmp_path / "s", STEPS, listeners=10_000, hypotheses=[])
    acknowledged: list[str] = []
    stop = threading.Event()

    def come(k: int) -> None:
        while not stop.is_set():
            visitor = Visitor(server, f"127.0.{k}.1")
            state = visitor.begin()[1]
            while not state["done"] and not stop.is_set():
                attempt = f"{k}-{len(acknowledged)}-{state['position']}"
                state = visitor.answer(state, attempt)[1]["state"]
                acknowledged.append(attempt)

    with Server(study, limits={"begin_burst": 1000}) as server:
        visitors = [threading.Thread(target=come, args=(k,)) for k in (1, 2, 3)]
        for thread in visitors:
            thread.start()
        try:
            for k in range(5):
                while len(acknowledged) < 6 * (k + 1):
                    stop.wait(0.02)
                before = set(acknowledged)
                done = subprocess.run(
                    [
                        sys.executable,
                        "-m",
                        "limen.cli.app",
                        "listen",
                        "backup",
                        str(study),
                        str(tmp_path / f"{k}.db"),
                    ],
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, done.stderr
                copy = sqlite3.connect(tmp_path / f"{k}.db")
                held = {attempt for (attempt,) in copy.execute("SELECT attempt FROM answers")}
                copy.close()
                assert before <= held
        finally:
            stop.set()
            for thread in visitors:
                thread.join()
    assert sorted(p.name for p in tmp_path.glob("*.db*")) == [f"{k}.db" for k in range(5)]
    last = tmp_path / "4.db"
    assert stat.S_IMODE(last.stat().st_mode) == 0o600
    url = f"sqlite:///{last}"
    assert "took part" in listen("analyze", study, "--database", url, "--out", tmp_path / "results.html")
    listen("export", study, tmp_path / "answers.csv", "--database", url)
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == len(held) + 1


def test_a_backup_overwrites_nothing_and_says_so(tmp_path: Path) -> None:
    study = studies.write(tmp_path / "s")
    Store(tmp_path / "s" / "small.db").close()
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(UserError, match="overwrites nothing"):
        backup(study.parent / "small.db", tmp_path / "precious")
    with pytest.raises(UserError, match="overwrites nothing"):
        backup(study.parent / "small.db", study.parent / "small.db")
    assert (tmp_path / "precious").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["precious", "s"]
    assert "0 answers" in listen("backup", study, tmp_path / "fresh.db")


def test_a_file_beside_the_backup_is_left_alone_whatever_it_is_called(tmp_path: Path) -> None:
    Store(tmp_path / "small.db").close()
    (tmp_path / "copy.db.part").write_text("mine")
    backup(tmp_path / "small.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db.part").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.db", "copy.db.part", "small.db"]


def test_of_backups_to_one_name_at_once_one_is_written_and_the_others_say_so(tmp_path: Path) -> None:
    Store(tmp_path / "small.db").close()

    def copy(_: int) -> str:
        try:
            backup(tmp_path / "small.db", tmp_path / "copy.db")
        except UserError as error:
            return str(error)
        return "written"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(copy, range(8)))
    assert said.count("written") == 1
    assert all(
        "overwrites nothing" in words or "File exists" in words for words in said if words != "written"
    )
    assert sqlite3.connect(tmp_path / "copy.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.db", "small.db"]


def test_a_file_system_without_links_gets_a_backup_too_and_it_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    Store(tmp_path / "small.db").close()
    monkeypatch.setattr("os.link", refuse)  # as exFAT does, which tests cannot mount
    assert backup(tmp_path / "small.db", tmp_path / "copy.db") == 0
    Store(tmp_path / "copy.db").close()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        _publish(tmp_path / "small.db", tmp_path / "copy.db")


def test_what_cannot_be_backed_up_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        backup(tmp_path / "none.db", tmp_path / "copy.db")
    (tmp_path / "notes.db").write_text("no database at all" * 500)
    with pytest.raises(UserError, match=r"could not be written: file is not a database\. No file was left"):
        backup(tmp_path / "notes.db", tmp_path / "copy.db")
    with pytest.raises(UserError, match="does not exist"):
        backup(tmp_path / "notes.db", tmp_path / "nowhere" / "copy.db")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.db"]


def test_of_postgresql_the_command_that_copies_it_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"pg_dump --format=custom --file=.*copy.db 'postgresql://limen:\*\*\*@host/study'"
    ):
        backup("postgresql+psycopg://limen:secret@host/study", tmp_path / "copy.db")
