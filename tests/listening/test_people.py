"""Who took part is written into a file of its own: recruitment, completion codes, times, demographics and
comments."""

import csv
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answering
import pytest
import studies
import yaml
from typer.testing import CliRunner

from limen.cli.app import app
from limen.listening.analysis.columns import PEOPLE, people_columns
from limen.listening.analysis.people import people
from limen.listening.server.identifiers import Identifiers
from limen.listening.server.store import Store
from limen.listening.study import Study, read_study
from limen.trials.base.screen import Screen

STEPS = ["consent", {"name": "abx", "trials": 1}, "demographics", "comments", "comments"]
AGE = 41


def respond(listener: int, screen: Screen) -> dict[str, Any] | None:
    if listener == 2 and screen.kind == "demographics":
        return None  # leaves
    answers: dict[str, Any] = {
        "consent": lambda: {"consent": "agree"},
        "abx": lambda: {w.name: w.choices[0].value for w in screen.widgets},
        "demographics": lambda: {
            "age": str(AGE + listener),
            "gender": "other:=me",
            "device": "separate loudspeakers",
        },
        "comments": lambda: {"comments": f"said at step {screen.step}"},
    }
    return answers[screen.kind]()  # type: ignore[no-any-return]


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[tuple[Path, Study, Store]]:
    path = studies.write(tmp_path / "s", STEPS, hypotheses=[])
    plan = read_study(path)
    store = answering.fill(plan, tmp_path / "s" / "small.db", 3, respond)
    yield path, plan, store
    store.close()


def listen(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["listen", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_people_are_exported_with_all_that_was_collected_of_them(
    taken: tuple[Path, Study, Store], tmp_path: Path
) -> None:
    path, _, store = taken
    store.close()
    said = listen("export", path, tmp_path / "answers.csv", "--people", tmp_path / "people.csv")
    assert "3 people, personal data" in said
    rows = table(tmp_path / "people.csv")
    first, _, gone = rows
    assert first["recruitment_participant"] == "Person Number0"
    assert (first["demographics_age"], first["demographics_gender"], first["demographics_device"]) == (
        str(AGE),
        "other:=me",
        "separate loudspeakers",
    )
    assert (first["comments"], first["comments_2"]) == ("said at step 3", "said at step 4")
    assert first["code"] == rows[1]["code"] != ""
    assert first["finished_at"] > "2020"
    assert float(first["minutes"]) >= 0
    assert (gone["code"], gone["finished_at"], gone["minutes"], gone["demographics_age"]) == ("", "", "", "")
    assert (gone["excluded"], gone["reason"]) == ("true", "did not reach the end")
    assert (first["answers"], gone["answers"]) == ("5", "2")
    assert stat.S_IMODE((tmp_path / "people.csv").stat().st_mode) == 0o600
    assert "Person Number" not in (tmp_path / "answers.csv").read_text()


def test_the_codebook_explains_each_column_in_the_words_of_the_study(
    taken: tuple[Path, Study, Store], tmp_path: Path
) -> None:
    path, plan, store = taken
    store.close()
    listen("export", path, tmp_path / "answers.parquet", "--people", tmp_path / "people.csv")
    book = {row["column"]: row for row in table(tmp_path / "people.codebook.csv")}
    assert list(book) == list(table(tmp_path / "people.csv")[0]) == list(people_columns(plan))
    assert list(PEOPLE) == list(book)[: len(PEOPLE)]
    assert book["demographics_age"]["meaning"] == "How old are you, in years?"
    assert book["demographics_hearing"]["values"].startswith("none that I know of | mild")
    assert book["minutes"]["unit"] == "min"
    assert (tmp_path / "answers.codebook.csv").is_file()


def test_an_erased_listener_leaves_an_empty_row(taken: tuple[Path, Study, Store]) -> None:
    _, plan, store = taken
    store.erase(1)
    first, second, _ = people(store, plan)
    personal = [
        name for name in first if name.startswith(("recruitment_", "demographics_", "comments", "code"))
    ]
    assert len(personal) > 8
    assert all(first[name] is None for name in personal)
    assert (first["erased"], second["erased"], second["demographics_age"]) == (True, False, str(AGE + 1))


def test_listeners_own_codes_are_those_that_they_were_shown(taken: tuple[Path, Study, Store]) -> None:
    _, plan, store = taken
    own = plan.model_copy(update={"recruitment": plan.recruitment.model_copy(update={"codes": "listener"})})
    codes = [row["code"] for row in people(store, own)]
    assert codes == [
        Identifiers(store.secret, own).completion_code(1),
        Identifiers(store.secret, own).completion_code(2),
        None,
    ]
    assert len(set(codes)) == 3


def test_people_and_answers_do_not_go_into_one_file(taken: tuple[Path, Study, Store], tmp_path: Path) -> None:
    path, _, store = taken
    store.close()
    done = CliRunner().invoke(
        app, ["listen", "export", str(path), str(tmp_path / "a.csv"), "--people", str(tmp_path / "a.csv")]
    )
    assert done.exit_code != 0
    assert not (tmp_path / "a.csv").exists()


def test_a_people_file_in_json_holds_numbers_as_numbers(
    taken: tuple[Path, Study, Store], tmp_path: Path
) -> None:
    path, _, store = taken
    store.close()
    listen("export", path, tmp_path / "answers.csv", "--people", tmp_path / "people.json")
    assert [row["listener"] for row in json.loads((tmp_path / "people.json").read_text())] == [1, 2, 3]


def test_a_study_has_one_code_of_its_own_or_that_of_its_file(tmp_path: Path) -> None:
    one, two = (Store(tmp_path / f"{k}.db") for k in range(2))
    plan = read_study(studies.write(tmp_path / "s"))
    codes = [
        Identifiers(store.secret, plan).completion_code(listener)
        for store in (one, two)
        for listener in (1, 2)
    ]
    assert codes[0] == codes[1] != codes[2] == codes[3]
    again = Store(tmp_path / "0.db")
    assert Identifiers(again.secret, plan).completion_code(7) == codes[0]
    for store in (one, two, again):
        store.close()
    path = studies.write(tmp_path / "t", recruitment={"code": "C1ABCDEF"})
    assert Identifiers(b"secret", read_study(path)).completion_code(3) == "C1ABCDEF"
    study = yaml.safe_load(path.read_text()) | {"recruitment": {"code": "C1ABCDEF", "codes": "listener"}}
    with pytest.raises(ValueError, match="give only one of the two"):
        Study.model_validate(study)
