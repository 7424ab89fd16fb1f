"""Adversarial sets that other tools can read, and back again."""

import csv
import json

import pytest
import soundfile
import torch
from spelling import Speller, cell, clip, dataset, run

from limen.audio.files import read_clip
from limen.core.components import parse
from limen.measure import measure_files

TEXTS = ["one two three", "four", "two one", "three three", "four four four"]
IDS = ["a/b.wav", "a_b", "ü ?", "a/B.flac", "../up"]
ATTACK = {
    "name": "pgd",
    "steps": 20,
    "goal": {"name": "transcript", "text": "three three"},
    "budget": {"name": "snr", "snr_db": 3},
}


def table(folder):
    with (folder / "adversarial" / "table.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("form", ["flac", "wav"])
@pytest.mark.parametrize("task", ["accuracy", "samples"])
def test_every_clip_becomes_a_16_bit_file_that_the_table_names(tmp_path, task, form):
    data = dataset(TEXTS, IDS)
    outcome = run(task, cell(tmp_path, data, ATTACK), export=form, limit_samples=5)
    lines = table(tmp_path)
    assert [line["id"] for line in lines] == IDS
    assert [line["text"] for line in lines] == TEXTS
    assert list(lines[0])[:8] == [
        "id",
        "clean",
        "adversarial",
        "text",
        "clean_transcript",
        "adversarial_transcript",
        "target",
        "success",
    ]
    assert len({line["adversarial"].lower() for line in lines}) == 5
    for line, row, text in zip(lines, outcome.rows, TEXTS, strict=True):
        path = (tmp_path / "adversarial" / line["adversarial"]).resolve()
        assert path.is_relative_to(tmp_path / "adversarial" / "adversarial")
        info = soundfile.info(path)
        assert (info.format, info.subtype, info.samplerate) == (form.upper(), "PCM_16", 8000)
        assert torch.equal(read_clip(tmp_path / "adversarial" / line["clean"], 8000), clip(text))
        assert Speller()(read_clip(path, 8000)[None]).texts() == [row["adversarial_prediction"]]
        assert (line["adversarial_transcript"], line["target"]) == (
            row["adversarial_prediction"],
            "three three",
        )
        assert (line["success"], float(line["snr_db"])) == (str(row["success"]), pytest.approx(row["snr_db"]))


def test_what_was_exported_is_imported_with_the_same_answers_and_numbers(tmp_path):
    before = run("accuracy", cell(tmp_path, dataset(TEXTS, IDS), ATTACK), export="flac").rows
    path = str(tmp_path / "adversarial" / "table.csv")
    component, options = parse(
        "data",
        {"name": "transcripts", "path": path, "audio_column": "clean", "rate_hz": 8000, "order": "file"},
    )
    again = {"name": "imported", "table": path, "goal": ATTACK["goal"]}
    after = run("accuracy", cell(tmp_path / "b", component.function(options), again, batch_size=3)).rows
    calls = ("forward_calls", "backward_calls", "dead_gradients")
    assert json.dumps([{k: v for k, v in row.items() if k not in calls} for row in after]) == json.dumps(
        [{k: v for k, v in row.items() if k not in calls} for row in before]
    )
    assert {row["forward_calls"] for row in after} == {0}
    assert any(row["success"] for row in after)
    assert not all(row["success"] for row in after)
    assert [row["already"] for row in after] == [text == "three three" for text in TEXTS]
    assert not any(row["success"] and row["already"] for row in after)


def test_the_two_folders_of_a_set_are_what_limen_measure_takes(tmp_path):
    rows = run("accuracy", cell(tmp_path, dataset(TEXTS), ATTACK), export="wav").rows
    measured = measure_files(
        tmp_path / "adversarial" / "clean", tmp_path / "adversarial" / "adversarial", ["snr_db"]
    )
    assert [row["snr_db"] for row in measured.rows] == pytest.approx([row["snr_db"] for row in rows])


def test_pictures_become_png_and_come_back_as_stored_in_8_bits(tmp_path):
    from limen.experiments.engine import run as run_experiment
    from limen.experiments.file import Experiment
    from limen.experiments.folder import read_table

    def rows(attack, folder, export):
        net = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 6}}
        entry = {"task": {"name": "accuracy", "export": export}, "nets": [net], "attacks": [attack]}
        (done,) = run_experiment(
            Experiment.model_validate({"name": "t", "store": "uint8", "audit": False, "tasks": [entry]}),
            folder,
        )["cells"]
        return read_table(folder / "rows.parquet"), folder / "cells" / done[
            "id"
        ] / "adversarial" / "table.csv"

    before, path = rows(
        {"name": "pgd", "steps": 3, "budget": {"name": "linf", "eps": 0.1}}, tmp_path / "one", "flac"
    )
    after, _ = rows({"name": "imported", "table": str(path)}, tmp_path / "two", None)
    assert [(r["id"], r["success"], r["linf"]) for r in before] == [
        (r["id"], r["success"], r["linf"]) for r in after
    ]
