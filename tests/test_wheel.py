"""What a user installs: a wheel, built from the sources, put where nothing else of the project is."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pip(*arguments: object) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that no build/ is left in the sources; nothing is fetched."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    shutil.copytree(ROOT / "limen", source / "limen", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", place, source)
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A fresh environment that holds this wheel and, of everything else, only what the wheel depends on."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
    )
    # a path in a .pth file is searched for packages, but the .pth files in it (of the sources installed for
    # editing) are not followed
    (Path(packages.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    return place / "bin"


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)


def test_every_file_that_git_knows_in_the_package_is_in_the_wheel(wheel):
    known = subprocess.run(
        ["git", "ls-files", "limen"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len([name for name in known if not name.endswith(".py")]) > 50
    packed = zipfile.ZipFile(wheel)
    assert sorted(set(known) - set(packed.namelist())) == []
    for name in known:
        assert packed.read(name) == (ROOT / name).read_bytes(), name


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"limen"}
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_demo_runs_from_the_installed_package_alone(installed, tmp_path):
    where = run(installed / "python", "-c", "import limen; print(limen.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(installed.parent)), where.stderr
    done = run(installed / "limen", "demo", "--limit", "2", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("demo/report.html")
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000


def test_the_installed_package_writes_and_checks_a_study_from_its_templates(installed, tmp_path):
    made = run(
        installed / "limen", "listen", "new", "study", "--template", "abx", "--seed", "0", cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    checked = run(installed / "limen", "listen", "check", "study", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
