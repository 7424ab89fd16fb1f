"""Answers leave as a table: one row per answer, nothing personal, safe in a spreadsheet, the same in every
format."""

import csv
import json
from pathlib import Path
from typing import Any

import answering
import pyarrow.parquet as pq
import pytest

from limen.core.errors import UserError
from limen.listening.analysis import export
from limen.listening.analysis.columns import ANSWERS, answer_columns, codebook_path
from limen.trials.base.columns import ExportColumn
from limen.trials.base.screen import Screen

STEPS = [
    "consent",
    {"name": "abx", "trials": 2, "catch": 1},
    {"name": "naturalness", "trials": 2, "identify": True},
    {"name": "mushra", "trials": 1},
    {"name": "transcription", "trials": 1},
    {"name": "preference", "trials": 2, "indifferent": "neither"},
    {"name": "headphones", "screens": 1},
    "demographics",
    "comments",
]
HOSTILE = '=HYPERLINK("http://example.org";"x"), \'quoted\'\nnext line'
LOUD = answer_columns(answering.study(STEPS))
PERSONAL = ("Zebediah", "Person Number", "secret comment")


def respond(listener: int, screen: Screen) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "consent": lambda: {w.name: w.choices[0].value for w in screen.widgets},
        "abx": lambda: {"answer": "A", "confidence": "medium"},
        "naturalness": lambda: {"word": f"other:{HOSTILE}" if listener else "left", "naturalness": "4"},
        "mushra": lambda: {"rating": {s.label: 10 * k for k, s in enumerate(screen.sounds) if s.rated}},
        "transcription": lambda: {"text": "-1+1|cmd"},
        "preference": lambda: {"answer": "none" if listener else "B"},
        "headphones": lambda: {
            "answer": screen.truth["answer"] if listener else "123".replace(screen.truth["answer"], "")[0]
        },
        "demographics": lambda: {"age": "41", "gender": "other:Zebediah"},
        "comments": lambda: {"comments": "secret comment"},
    }
    return answers[screen.kind]()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return answering.table(answering.study(STEPS), tmp_path_factory.mktemp("export") / "a.db", 2, respond)


def of(table: list[dict[str, Any]], kind: str, listener: int = 1) -> list[dict[str, Any]]:
    return [row for row in table if row["kind"] == kind and row["listener"] == listener]


def test_every_answer_has_a_row_and_a_mushra_screen_one_per_rated_sound(table: list[dict[str, Any]]) -> None:
    screens = {(row["listener"], row["position"]) for row in table}
    mushra = of(table, "mushra")
    assert len(mushra) == 4  # hidden reference, the other condition, two anchors; not the open reference
    assert len(table) == len(screens) + 2 * 3
    assert {row["condition"] for row in mushra} == {
        "clean",
        "adversarial",
        "low-pass 3.5 kHz",
        "low-pass 7 kHz",
    }
    said = json.loads(mushra[0]["answer"])["rating"]
    assert all(row["rating"] == said[row["sound"]] for row in mushra)


def test_rows_have_the_columns_they_promise_and_factors(table: list[dict[str, Any]]) -> None:
    assert all(set(row) == {*ANSWERS, "loudness"} for row in table)
    by_item = {"item 0": "low", "item 1": "low", "item 2": "high", "item 3": "high"}
    assert all(row["loudness"] == by_item[row["item"]] for row in table if row["item"])
    assert {row["fingerprint"] for row in table} == {answering.study(STEPS).fingerprint()}


def test_a_row_says_what_was_chosen_what_is_true_and_what_was_heard(table: list[dict[str, Any]]) -> None:
    trials = [row for row in of(table, "abx") if row["role"] == "trial"]
    assert [row["choice"] for row in trials] == ["A", "A"]
    assert all(row["correct"] is (row["truth"] == "A") for row in trials)
    assert all(row["confidence"] == "medium" and row["rating"] is None for row in trials)
    assert {row["chosen"] for row in trials} <= {"clean", "adversarial"}
    assert all(row["heard"] is True and row["plays"] == 6 and row["rate_hz"] == 48_000 for row in trials)
    assert [row["role"] for row in of(table, "abx")].count("catch") == 1
    assert all(row["heard"] is None and row["plays"] is None for row in of(table, "consent"))


def test_a_word_and_a_rating_of_one_screen_stand_side_by_side(table: list[dict[str, Any]]) -> None:
    row = of(table, "naturalness")[0]
    assert (row["choice"], row["rating"]) == ("left", 4.0)
    assert row["correct"] is (row["truth"] == "left")


def test_a_preference_names_the_condition_and_a_tie_names_none(table: list[dict[str, Any]]) -> None:
    for row in of(table, "preference"):
        assert set(row["condition"].split(" / ")) == {"clean", "adversarial"}
        assert row["chosen"] in ("clean", "adversarial")
    assert all(row["choice"] == "none" and row["chosen"] is None for row in of(table, "preference", 2))


def test_numbers_to_choose_from_are_a_choice_where_one_is_right(table: list[dict[str, Any]]) -> None:
    (row,) = of(table, "headphones")
    assert row["choice"] in ("1", "2", "3")
    assert row["rating"] is None
    assert row["correct"] is False
    assert of(table, "headphones", 2)[0]["correct"] is True


def test_a_transcript_stands_beside_what_was_said(table: list[dict[str, Any]]) -> None:
    (row,) = of(table, "transcription")
    assert row["text"] == "-1+1|cmd"
    assert row["truth"] in ("left", "right")


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_nothing_personal_is_in_a_file(table: list[dict[str, Any]], tmp_path: Path, suffix: str) -> None:
    content = export.write(table, tmp_path / f"answers{suffix}", LOUD).read_bytes()
    assert not any(word.encode() in content for word in PERSONAL)
    assert [row["answer"] for row in table if row["kind"] in ("demographics", "comments")] == [None] * 4


def test_csv_is_read_back_as_it_was_but_for_an_apostrophe_before_formulas(
    table: list[dict[str, Any]], tmp_path: Path
) -> None:
    with export.write(table, tmp_path / "a.csv", LOUD).open(newline="", encoding="utf-8") as file:
        back = list(csv.DictReader(file))
    assert len(back) == len(table)
    for row, read in zip(table, back, strict=True):
        for name, value in row.items():
            if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
                assert read[name] == f"'{value}"
            elif isinstance(value, bool):
                assert read[name] == str(value).lower()
            else:
                assert read[name] == ("" if value is None else str(value))
    assert not any(
        value.startswith(("=", "+", "-", "@", "\t", "\r")) for read in back for value in read.values()
    )
    assert any(read["text"] == "'-1+1|cmd" for read in back)
    assert any(read["choice"] == f"other:{HOSTILE}" for read in back)


def test_negative_numbers_are_no_formulas() -> None:
    assert export.safe(-3.5) == -3.5
    assert export.safe("-3.5") == "'-3.5"
    assert export.safe("\t=1") == "'\t=1"


def test_json_lines_json_and_parquet_hold_the_same_rows(table: list[dict[str, Any]], tmp_path: Path) -> None:
    assert json.loads(export.write(table, tmp_path / "a.json", LOUD).read_text()) == table
    assert [
        json.loads(line) for line in export.write(table, tmp_path / "a.jsonl", LOUD).read_text().splitlines()
    ] == table
    back = pq.read_table(export.write(table, tmp_path / "a.parquet", LOUD)).to_pylist()
    assert [{name: row[name] for name in table[0]} for row in back] == table


def test_a_factor_that_is_a_word_and_a_number_is_a_word_in_parquet(tmp_path: Path) -> None:
    rows = [{"study": "s", "level": 1}, {"study": "s", "level": "high"}, {"study": "s", "level": None}]
    assert pq.read_table(
        export.write(rows, tmp_path / "a.parquet", ANSWERS | {"level": ExportColumn("a factor")})
    ).column("level").to_pylist() == ["1", "high", None]


def test_a_factor_with_the_name_of_a_column_gets_another() -> None:
    plan = answering.study(["consent"])
    items = [item.model_copy(update={"factors": {"group": "x", "loudness": "low"}}) for item in plan.items]
    assert export.factor_columns(plan.model_copy(update={"items": items})) == {
        "group": "factor_group",
        "loudness": "loudness",
    }


def test_answers_to_other_screens_than_those_of_the_file_are_refused(tmp_path: Path) -> None:
    plan = answering.study([{"name": "abx", "trials": 2}])
    store = answering.fill(plan, tmp_path / "a.db", 1, respond)
    answers, listeners = store.answers(), store.listeners()
    store.close()
    stricter = answering.study([{"name": "abx", "trials": 2}], exclude=[{"name": "too_fast", "seconds": 9}])
    assert all(
        row["excluded"] for row in export.rows(answers, listeners, stricter)
    )  # other rules are no other screens
    for steps in ([{"name": "naturalness", "trials": 2}], [{"name": "abx", "trials": 1}]):
        with pytest.raises(UserError, match="of listener 1 was abx"):
            export.rows(answers, listeners, answering.study(steps))


def test_a_table_of_nobody_has_its_heading(tmp_path: Path) -> None:
    assert export.rows([], [], answering.study(["consent"])) == []
    assert export.write([], tmp_path / "a.csv", ANSWERS).read_text().strip().split(",") == list(ANSWERS)


def test_an_unknown_ending_is_refused_with_the_known_ones(
    table: list[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"\.csv, \.json, \.jsonl, \.parquet.*\.xlsx"):
        export.write(table, tmp_path / "a.xlsx", LOUD)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(table: list[dict[str, Any]], tmp_path: Path) -> None:
    path = export.write(table, tmp_path / "a.json", LOUD)
    before = path.read_bytes()
    with pytest.raises(ValueError):
        export.write([{"study": float("nan")}], path, ANSWERS)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.codebook.csv", "a.json"]


def codebook(path: Path) -> dict[str, dict[str, str]]:
    with codebook_path(path).open(newline="", encoding="utf-8") as file:
        return {row["column"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_every_export_has_a_codebook_of_its_columns_in_their_order(
    table: list[dict[str, Any]], tmp_path: Path, suffix: str
) -> None:
    book = codebook(export.write(table, tmp_path / f"answers{suffix}", LOUD))
    assert set(book) == set(table[0])
    if suffix == ".csv":
        assert list(book) == (tmp_path / "answers.csv").read_text().splitlines()[0].split(",")
    if suffix == ".parquet":
        assert list(book) == pq.read_table(tmp_path / "answers.parquet").column_names
    assert all(row["meaning"] for row in book.values())
    assert (book["response_ms"]["unit"], book["played_s"]["unit"], book["rate_hz"]["unit"]) == (
        "ms",
        "s",
        "Hz",
    )
    assert book["kind"]["values"].split(" | ") == [
        step if isinstance(step, str) else step["name"] for step in STEPS
    ]
    assert book["loudness"]["values"] == "low | high"


def test_cells_hold_what_the_codebook_allows(table: list[dict[str, Any]], tmp_path: Path) -> None:
    path = export.write(table, tmp_path / "answers.csv", LOUD)
    book = codebook(path)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, cell in row.items():
                allowed, kind = book[name]["values"], book[name]["kind"]
                if cell and "(" not in allowed and allowed:
                    assert cell in allowed.split(" | "), name
                if cell and kind in ("number", "whole"):
                    assert float(cell) == (int(float(cell)) if kind == "whole" else float(cell)), name


def test_a_column_that_no_codebook_explains_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="surprise"):
        export.write([{"study": "s", "surprise": 1}], tmp_path / "a.csv", ANSWERS)
    assert not list(tmp_path.iterdir())
