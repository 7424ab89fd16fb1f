"""Judgments of a study become a table of pairs with the clips that were played, and any such table is read
back."""

import csv
import hashlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import answering
import pytest
import soundfile
import studies

from limen.core.errors import UserError
from limen.listening.analysis.jnd import Judgment, jnd_table, read_jnd
from limen.listening.design import screens
from limen.listening.stimuli import Stimuli, digest
from limen.trials.base.screen import Screen

STEPS = [
    {
        "name": "same_different",
        "axes": ["noise"],
        "adaptive": {"max_trials": 4, "min_trials": 4},
        "same": 1,
        "sentinels": 1,
        "teaching": 1,
    }
]


def respond(k: int, screen: Screen) -> dict[str, Any]:
    if screen.role == "sentinel":
        return {"answer": "same" if k == 1 else "different"}
    return {"answer": "different" if screen.facts["strength"] > 40 else "same"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, list[dict[str, Any]], Path]:
    source = tmp_path_factory.mktemp("study")
    plan = answering.study(STEPS, 2, ("clean",), exclude=[{"name": "sentinels"}])
    for k in range(2):
        studies.tone(source / f"clean{k}.wav", 400 + 100 * k, seconds=0.1)
    table = answering.table(plan, source / "a.db", 3, respond)
    return jnd_table(table, source / "pairs", plan, source), plan, table, source


def test_every_trial_is_a_line_and_sentinels_and_teaching_are_none(written: Any) -> None:
    path, _, table, _ = written
    trials = [row for row in table if row["role"] == "trial"]
    judged = read_jnd(path)
    assert len(judged) == len(trials) == 3 * 5
    for row, j in zip(trials, judged, strict=True):
        assert (j.label, j.listener, j.axis, j.strength) == (
            int(row["strength"] > 40),
            str(row["listener"]),
            "noise",
            row["strength"],
        )
        assert j.excluded is (row["listener"] == 2)  # who missed a sentinel is marked, not dropped


def test_the_clips_are_the_samples_that_were_played(written: Any) -> None:
    path, plan, table, source = written
    stimuli = Stimuli(plan.model_copy(update={"dither": False}), source, source / "other_cache")
    trials = [row for row in table if row["role"] == "trial"]
    for row, j in list(zip(trials, read_jnd(path), strict=True))[:5]:
        screen = screens(plan, row["group"], row["number"])[row["position"]].at(row["strength"])
        sent = {
            s.condition: wav for s, wav in zip(screen.sounds, stimuli.sounds(screen, plan.seed), strict=True)
        }
        assert j.reference.read_bytes() == sent["reference"]
        assert j.test.read_bytes() == sent["test"]
        assert j.test.stem == digest(sent["test"])[:24]
        reference, test = (soundfile.read(p)[0] for p in (j.reference, j.test))
        assert len(reference) == len(test) == 1600
        assert (reference == test).all() == (row["strength"] == 0)


def test_equal_clips_are_written_once(written: Any) -> None:
    files = list(written[0].parent.glob("*.wav"))
    assert len({hashlib.sha256(f.read_bytes()).digest() for f in files}) == len(files)
    assert {f.name for f in written[0].parent.iterdir()} == {f.name for f in files} | {
        "judgments.tsv",
        "judgments.codebook.csv",
    }


def test_a_study_without_same_different_answers_is_refused(tmp_path: Path) -> None:
    plan = answering.study(["consent"])
    with pytest.raises(
        UserError, match="no judgments of pairs to write; they come from the trial types same_different"
    ):
        jnd_table([], tmp_path / "pairs", plan, tmp_path)


def test_published_lists_without_a_heading_are_read(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("a/1.wav\ta/2.wav\t1\na/1.wav\ta/1.wav\t0\n")
    assert read_jnd(path) == [
        Judgment(tmp_path / "a/1.wav", tmp_path / "a/2.wav", 1),
        Judgment(tmp_path / "a/1.wav", tmp_path / "a/1.wav", 0),
    ]


def test_tables_with_commas_and_other_orders_are_read(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("label,test,reference,strength,excluded\n1,b.wav,a.wav,12.5,true\n")
    assert read_jnd(path) == [
        Judgment(tmp_path / "a.wav", tmp_path / "b.wav", 1, strength=12.5, excluded=True)
    ]


@pytest.mark.parametrize(
    "text",
    ["a.wav\tb.wav\t2\n", "a.wav\tb.wav\n", "a.wav\t\t1\n", "reference,test,label,strength\na,b,1,loud\n"],
)
def test_a_broken_line_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.tsv"
    path.write_text(text)
    with pytest.raises(UserError, match=r"list.tsv: judgment 1 .*label of 0 \(same\) or 1 \(different\)"):
        read_jnd(path)


def test_a_missing_table_and_one_that_is_no_text_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such table"):
        read_jnd(tmp_path / "none.tsv")
    (tmp_path / "clip.wav").write_bytes(b"RIFF\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        read_jnd(tmp_path / "clip.wav")


def test_each_judgment_says_which_item_was_heard_and_how_long_the_answer_took(written: Any) -> None:
    path, plan, table, _ = written
    trials = [row for row in table if row["role"] == "trial"]
    judged = read_jnd(path)
    assert [j.item for j in judged] == [row["item"] for row in trials]
    assert [j.response_ms for j in judged] == [row["response_ms"] for row in trials]
    assert {j.item for j in judged} <= {item.id for item in plan.items}
    assert all(j.response_ms > 0 for j in judged)


def test_the_codebook_beside_the_judgments_explains_their_columns_and_they_are_those_that_are_read(
    written: Any,
) -> None:
    path = written[0]
    with path.with_name("judgments.codebook.csv").open(newline="") as file:
        named = [row["column"] for row in csv.DictReader(file)]
    assert named == path.read_text().splitlines()[0].split("\t") == [field.name for field in fields(Judgment)]
