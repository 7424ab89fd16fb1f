"""What the disk can do to a run: full, read-only, files cut short. One sentence, exit code 2, nothing
half-written."""

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import yaml

import limen
from limen.audio.files import write_clip
from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.experiments.engine import Quiet, run
from limen.experiments.file import Experiment
from limen.experiments.folder import read_table
from limen.report import build

ROOT = Path(__file__).parents[2]
NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 24}}
CONTENT = {
    "name": "t",
    "audit": False,
    "tasks": [{"nets": [NET], "attacks": [None, {"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}}]}],
}
EXPERIMENT = Experiment.model_validate(CONTENT)
Prepare = Callable[[], object]


def command(
    *arguments: object, cwd: Path, prepare: Prepare = lambda: None
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "-m", "limen.cli.app", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, preexec_fn=prepare)


def one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("limen: ")
    for word in words:
        assert word in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr


def halves(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.name.endswith((".part", ".tmp"))]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("experiment") / "t.yaml"
    path.write_text(yaml.safe_dump(CONTENT))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(EXPERIMENT, folder)
    build(folder)
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def clips(tmp_path) -> tuple[Path, Path]:
    tone = torch.sin(torch.arange(8000) / 5) / 2
    write_clip(tmp_path / "clean.wav", tone, 16000)
    write_clip(tmp_path / "changed.wav", tone * 0.9, 16000)
    return tmp_path / "clean.wav", tmp_path / "changed.wav"


@pytest.fixture(params=["a small disk", "a limit on files"])
def full(request, tmp_path) -> Iterator[tuple[Path, Prepare, str]]:
    """A place where nothing fits after the first kilobytes. Mounting takes rights that not everybody has; a
    limit works everywhere."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = request.param == "a small disk" and os.geteuid() == 0
    if (
        mounted
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", place], capture_output=True
        ).returncode
        == 0
    ):
        yield place, lambda: None, "the disk is full"
        subprocess.run(["umount", place], check=True)
    else:
        yield (
            place,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
            "the file is larger than this file system allows",
        )


def test_a_full_disk_stops_a_run_with_a_sentence_and_resume_goes_on_with_room(file, full, tmp_path):
    place, prepare, words = full
    done = command("run", file, "--out", place / "run", "--jobs", 1, cwd=tmp_path, prepare=prepare)
    one_sentence(done, words, f"limen run {file}", "--resume")
    assert halves(place) == []
    for cell in (place / "run" / "cells").iterdir():  # what is there is whole
        assert {"cell.json", "rows.parquet", "summary.json", "examples.json"} <= {
            p.name for p in cell.iterdir()
        }
    roomy = Path(shutil.copytree(place / "run", tmp_path / "roomy"))
    run(EXPERIMENT, roomy, resume=True)
    assert len(read_table(roomy / "rows.parquet")) == 48


def test_a_full_disk_loses_no_report_table_or_page(full, copied, clips, tmp_path):
    place, prepare, words = full
    (place / "old.html").write_text("the old page")
    (place / "link.csv").symlink_to("/dev/full")
    if words == "the disk is full":
        fill(place / "fill")
    for arguments in (
        ["report", copied, "--out", place / "new.html"],
        ["report", copied, "--out", place / "old.html"],
        ["measure", *clips, "--html", place / "new.html"],
    ):
        one_sentence(command(*arguments, cwd=tmp_path, prepare=prepare), words, str(arguments[-1]))
    one_sentence(
        command("measure", *clips, "--csv", place / "link.csv", cwd=tmp_path), "link.csv: the disk is full"
    )
    assert (place / "old.html").read_text() == "the old page"
    assert {p.name for p in place.iterdir()} - {"fill"} == {"link.csv", "old.html"}


def test_a_full_disk_leaves_no_part_of_a_template(full, tmp_path):
    place, prepare, words = full
    (place / "small.txt").write_text("x")
    if words == "the disk is full":
        fill(place / "fill")
    else:
        prepare = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    one_sentence(
        command("new", "attack", "mine", "--into", place, cwd=tmp_path, prepare=prepare), f"mine.py: {words}"
    )
    assert {p.name for p in place.iterdir()} - {"fill"} == {"small.txt"}
    (place / "fill").unlink(missing_ok=True)
    assert command("new", "attack", "mine", "--into", place, cwd=tmp_path).returncode == 0


def test_a_full_disk_loses_no_answers_that_are_exported(full, tmp_path):
    place, _, words = full
    assert command("listen", "new", "study", "--template", "abx", "--seed", "0", cwd=tmp_path).returncode == 0
    assert command("listen", "simulate", "study", "--listeners", 4, cwd=tmp_path).returncode == 0
    (place / "old.csv").write_text("the old answers")
    (place / "full.csv").symlink_to(
        "/dev/full"
    )  # SQLite itself needs files larger than the limit: here the device does it everywhere
    if words == "the disk is full":
        fill(place / "fill")
    for name in ["full.csv", "old.csv"] if words == "the disk is full" else ["full.csv"]:
        export = [
            "listen",
            "export",
            "study",
            place / name,
            "--database",
            f"sqlite:///{tmp_path / 'study' / 'simulated.db'}",
        ]
        one_sentence(command(*export, cwd=tmp_path), f"{name}: the disk is full")
    assert (place / "old.csv").read_text() == "the old answers"
    assert {p.name for p in place.iterdir()} - {"fill"} == {"old.csv", "full.csv"}
    (tmp_path / "a.codebook.csv").symlink_to("/dev/full")
    export = ["listen", "export", "study", tmp_path / "a.csv", "--simulated"]
    one_sentence(
        command(*export, cwd=tmp_path),
        "a.codebook.csv: the disk is full",
        f"The table itself, {tmp_path / 'a.csv'}, is complete",
    )


def fill(path: Path) -> None:
    """Writes until nothing fits any more."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def obey_modes() -> None:
    """Root may write everywhere; without this right it obeys the modes of folders as everybody does."""
    if os.geteuid() == 0:
        for right in (
            1,
            2,
        ):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH out of the bounding set: gone with the next exec
            assert ctypes.CDLL(None).prctl(24, right) == 0


def test_a_read_only_folder_is_one_sentence(file, copied, clips, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    for arguments in (
        ["run", file, "--out", locked],
        ["run", file, "--out", locked / "deep" / "run"],
        ["report", copied, "--out", locked / "r.html"],
        ["measure", *clips, "--json", locked / "m.json"],
    ):
        one_sentence(command(*arguments, cwd=tmp_path, prepare=obey_modes), "permission denied", str(locked))
    assert list(locked.iterdir()) == []
    locked.chmod(0o755)


def test_a_path_below_a_file_is_one_sentence_and_no_folder_is_left(file, clips, tmp_path):
    (tmp_path / "taken").write_text("")
    one_sentence(
        command("run", file, "--out", tmp_path / "taken" / "run", cwd=tmp_path), "Not a directory", "taken"
    )
    one_sentence(command("measure", *clips, "--csv", tmp_path / "taken" / "m.csv", cwd=tmp_path), "taken")
    one_sentence(
        command("run", file, "--out", tmp_path / "new" / ("x" * 300), cwd=tmp_path), "File name too long"
    )
    assert not (tmp_path / "new").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("name", ["config.json", "environment.json"])
def test_a_file_of_the_run_that_was_cut_short_is_named_with_the_way_out(name, file, copied, tmp_path):
    cut(copied / name)
    one_sentence(
        command("run", file, "--out", copied, "--resume", cwd=tmp_path), f"{name} is damaged", "Delete it"
    )
    one_sentence(command("report", copied, cwd=tmp_path), f"{name} is damaged", "Delete it", "--resume")
    (copied / name).unlink()
    run(EXPERIMENT, copied, resume=True)  # the way out that was told
    assert len(read_table(copied / "rows.parquet")) == 48


@pytest.mark.parametrize("name", ["cell.json", "rows.parquet", "summary.json", "examples.json"])
def test_a_cell_that_was_damaged_is_named_by_report_and_computed_again_by_resume(name, copied, tmp_path):
    damaged, other = sorted((copied / "cells").iterdir())
    cut(damaged / name)
    before = (other / "cell.json").stat().st_mtime_ns
    if name != "rows.parquet":  # the report shows summaries
        one_sentence(command("report", copied, cwd=tmp_path), f"{damaged.name}/{name}")
    said: list[str] = []

    class Listening(Quiet):
        def say(self, text: str) -> None:
            said.append(text)

    run(EXPERIMENT, copied, resume=True, progress=Listening())
    assert any("is damaged and is computed again" in text and damaged.name in text for text in said)
    assert len(read_table(copied / "rows.parquet")) == 48
    assert (other / "cell.json").stat().st_mtime_ns == before


def test_another_version_that_goes_on_says_so_and_both_are_recorded(finished, tmp_path, file):
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    known = json.loads((folder / "environment.json").read_text())
    assert [s["limen"] for s in known["sessions"]] == [limen.__version__]
    known["sessions"][0] |= {"limen": "0.0.7", "git": None}
    (folder / "environment.json").write_text(json.dumps(known))
    done = command("run", file, "--out", folder, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        f"this run was started with limen 0.0.7, torch {known['torch']} and is resumed with limen "
        f"{limen.__version__}" in done.stdout
    )
    now = json.loads((folder / "environment.json").read_text())
    assert [s["limen"] for s in now["sessions"]] == ["0.0.7", limen.__version__]
    assert all(s["command"] and s["started"] for s in now["sessions"])
    assert now["limen"] == limen.__version__
    again = Path(shutil.copytree(finished, tmp_path / "same"))
    assert "is resumed with" not in command("run", file, "--out", again, "--resume", cwd=tmp_path).stdout


def test_a_device_is_written_to_and_a_link_is_followed(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomic(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == b"new"
    write_atomic(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device"):
        write_atomic(Path("/dev/full"), b"x")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="not empty and holds no run"):
        run(EXPERIMENT, tmp_path, resume=True)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
