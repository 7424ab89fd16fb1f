"""Databases for the tests: a file of SQLite, and a PostgreSQL of our own that lives as long as the tests."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

COUNTER = itertools.count()


def postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    beside = shutil.which("initdb")
    if not found and not beside:
        pytest.fail("These tests need PostgreSQL: `make postgresql` installs it.")
    return found[-1].parent if found else Path(str(beside)).parent


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Address of a PostgreSQL server that listens on a socket in a temporary folder."""
    programs, folder = postgres_programs(), Path(tempfile.mkdtemp(prefix="limen-pg-"))
    # it refuses to run as root; Debian's package makes the user postgres
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")

    def run(*command: str) -> None:
        done = subprocess.run([*as_user, *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    run(
        str(programs / "initdb"),
        "-D",
        f"{folder}/data",
        "-U",
        "limen",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale",
        "C",
        "--no-sync",
    )
    settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
    run(
        str(programs / "pg_ctl"), "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", settings, "-w", "start"
    )
    try:
        yield f"postgresql://limen@/{{name}}?host={folder}"
    finally:
        run(str(programs / "pg_ctl"), "-D", f"{folder}/data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes an empty database and gives its URL; every test that asks for it runs on both."""

    def make() -> str:
        name = f"study{next(COUNTER)}"
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path / name}.db"
        address: str = request.getfixturevalue("postgresql")
        with psycopg.connect(address.format(name="postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return address.format(name=name)

    return make


@pytest.fixture
def database(new_database: Callable[[], str]) -> str:
    return new_database()
