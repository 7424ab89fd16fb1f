"""What `limen listen export` and `analyze` write: every table with its codebook in a file of its own, and
never over the study itself."""

import csv
import shutil
from pathlib import Path

import answering
import pytest
import studies
from typer.testing import CliRunner

from limen.cli.app import app
from limen.core.errors import UserError
from limen.listening.analysis.columns import EVENTS
from limen.listening.server.tables import events
from limen.listening.study import read_study

STEPS = ["consent", {"name": "abx", "trials": 1}, *studies.JND]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that somebody took, with items in a table."""
    folder = tmp_path_factory.mktemp("taken") / "s"
    file = studies.write(folder, STEPS, hypotheses=[])
    items = read_study(file).items
    with (folder / "items.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["id", "answer", *(f"file:{name}" for name in items[0].files)])
        writer.writerows([item.id, item.answer, *item.files.values()] for item in items)
    studies.write(folder, STEPS, hypotheses=[], items="items.csv")
    answer = lambda k, screen: {w.name: w.choices[0].value for w in screen.widgets}
    store = answering.fill(read_study(file), folder / "small.db", 2, answer)
    for position, kind in ((1, "hidden"), (1, "visible"), (2, "sound.silent")):
        with store.engine.connect().execution_options(write=True) as connection, connection.begin():
            connection.execute(
                events.insert().values(listener=2, at=1.8e9 + position, position=position, kind=kind)
            )
    store.close()
    return folder


@pytest.fixture
def study(taken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taken, tmp_path / "s"))


def listen(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["listen", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".db-" not in path.name
    }


@pytest.mark.parametrize(
    ("to", "more"),
    [
        ("answers.parquet", ["--people", "answers.csv"]),
        ("answers.csv", ["--people", "answers.csv"]),
        ("answers.csv", ["--people", "answers.codebook.csv"]),
        ("people.codebook.csv", ["--people", "people.csv"]),
        ("answers.csv", ["--events", "./answers.json"]),
        ("answers.csv", ["--people", "a.csv", "--events", "a.jsonl"]),
        ("answers.csv", ["--people", "judgments.csv", "--jnd", "."]),
        ("judgments.codebook.csv", ["--jnd", "."]),
    ],
)
def test_no_two_files_of_an_export_are_one(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, more: list[str]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match="expected a separate file for"):
        listen("export", study, to, *more)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["export", "items.csv"], "the table of the study's items"),
        (["export", "ITEMS.csv"], "the table of the study's items"),
        (["export", "x.csv", "--people", "items.csv"], "the table of the study's items"),
        (["export", "x.csv", "--events", "items.csv"], "the table of the study's items"),
        (["analyze", "--out", "study.yaml"], "the study file"),
        (["analyze", "--out", "small.db"], "a database of answers"),
        (["analyze", "--out", "audio/zebra_7f_0.wav"], "a sound of the item okapi0"),
    ],
)
def test_nothing_that_the_study_is_made_of_is_overwritten(
    study: Path, arguments: list[str], what: str
) -> None:
    (study / "ITEMS.csv").symlink_to("items.csv")
    before = state(study)
    paths = [str(study / word) if "." in word else word for word in arguments[1:]]
    with pytest.raises(UserError, match=f"is {what} and would be overwritten"):
        listen(arguments[0], study, *paths)
    assert state(study) == before


def test_all_tables_go_into_one_folder_each_with_its_codebook(study: Path, tmp_path: Path) -> None:
    to = tmp_path / "out"
    listen(
        "export",
        study,
        to / "answers.csv",
        "--people",
        to / "people.csv",
        "--events",
        to / "events.csv",
        "--jnd",
        to,
    )
    assert {f"{name}.codebook.csv" for name in ("answers", "people", "events", "judgments")} <= {
        path.name for path in to.iterdir()
    }


def test_what_happened_on_the_pages_is_exported_with_its_screen(study: Path, tmp_path: Path) -> None:
    assert "3 events" in listen("export", study, tmp_path / "a.csv", "--events", tmp_path / "events.csv")
    with (tmp_path / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(EVENTS)
    assert [tuple(row.values()) for row in rows] == [
        ("2", "2027-01-15T08:00:01.000+00:00", "1", "1", "abx", "hidden"),
        ("2", "2027-01-15T08:00:01.000+00:00", "1", "1", "abx", "visible"),
        ("2", "2027-01-15T08:00:02.000+00:00", "2", "2", "same_different", "sound.silent"),
    ]
