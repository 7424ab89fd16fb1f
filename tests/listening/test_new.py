"""A study from a template or from a run: served at once, balanced, and checked before anybody listens."""

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from limen.audio.files import read_clip, write_clip
from limen.errors import UserError
from limen.listening.check import check_study
from limen.listening.design import screens
from limen.listening.from_run import Pair, balanced, pairs
from limen.listening.made_pairs import made_pairs
from limen.listening.new import new_study, templates
from limen.listening.study import read_study

RATE_HZ = 16000
WORDS = ("yes", "no", "on", "off")


def tone(hz: float, amplitude: float) -> torch.Tensor:
    return amplitude * torch.sin(2 * torch.pi * hz * torch.arange(RATE_HZ // 4) / RATE_HZ)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with one exported set of 24 clips in three loudness levels, of which every third did not fool the model."""
    folder = tmp_path_factory.mktemp("run")
    cell = folder / "cells" / "a1"
    cell.mkdir(parents=True)
    (cell / "cell.json").write_text(json.dumps({"kind": "clip", "labels": {"attack": "pgd"}}))
    rows = []
    for i in range(36):
        word, amplitude = WORDS[i % 4], (0.003, 0.05, 0.5)[i // 12]
        for which, extra in (("clean", 0.0), ("adversarial", 0.002)):
            write_clip(cell / "adversarial" / which / f"{i}.wav", tone(300 + i, amplitude) + tone(2000, extra), RATE_HZ)
        fooled = i % 3 != 0
        rows.append({"id": f"clip {i}", "clean": f"clean/{i}.wav", "adversarial": f"adversarial/{i}.wav", "label": word,
                     "clean_prediction": word, "adversarial_prediction": "stop" if fooled else word, "success": fooled})  # fmt: skip
    with (cell / "adversarial" / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_only_pairs_that_the_model_had_right_and_then_wrong_are_taken(run):
    found = pairs(run)
    assert len(found) == 24
    assert {p.heard_as for p in found} == {"stop"}
    assert Counter(p.loudness for p in found) == {"low": 8, "medium": 8, "high": 8}


def test_pairs_are_chosen_evenly_over_loudness_and_words(run):
    chosen = balanced(pairs(run), 12, by_loudness=True)
    assert Counter(p.loudness for p in chosen) == {"low": 4, "medium": 4, "high": 4}
    assert Counter(p.answer for p in chosen) == dict.fromkeys(WORDS, 3)
    assert len({p.id for p in chosen}) == 12
    assert chosen == balanced(pairs(run), 12, by_loudness=True)


def test_a_clip_attacked_twice_is_heard_once():
    pair = Pair("a", Path("a"), Path("b"), "yes", "no", "pgd", "low")
    assert balanced([pair, replace(pair, attack="fgsm")], 5) in ([pair], [replace(pair, attack="fgsm")])


def test_an_attack_that_the_run_does_not_have_is_named_with_those_it_has(run):
    with pytest.raises(UserError, match=r'no attack "cw".*pgd'):
        pairs(run, "cw")


def test_a_folder_that_is_no_run_says_so(tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        pairs(tmp_path)


@pytest.mark.parametrize("template", sorted(templates()))
def test_every_template_with_the_clips_of_a_run_is_a_study_without_errors(template, run, tmp_path):
    path = new_study(tmp_path / "Study 1", template, run)
    study = read_study(path)
    assert study.name == "study-1"
    assert [f.text for f in check_study(path) if f.level == "error"] == []
    assert all(any(s.role == "trial" for s in screens(study, group, 0)) for group in study.cells)
    assert not list(tmp_path.glob("*.part"))


def test_the_published_study_has_nine_experiments_of_twelve_clips_and_six_abx_trials_and_one_catch_trial(run, tmp_path):
    study = read_study(new_study(tmp_path / "s", "seed000", run))
    assert len(study.cells) == 9
    assert study.listeners == 36
    for group in study.cells:
        found = screens(study, group, 0)
        first, second = [s for s in found if s.kind == "naturalness"], [s for s in found if s.kind == "abx"]
        assert Counter(s.facts["condition"] for s in first) == {"clean": 6, "adversarial": 6}
        assert Counter(s.role for s in second) == {"trial": 6, "catch": 1}
        assert second[-1].role == "catch"
        assert {s.facts["loudness"] for s in (*first, *second)} == {group.split()[0]}
        words = first[0].widgets[0]
        assert [c.value for c in words.choices] == sorted(WORDS)


def test_the_audio_of_a_study_is_that_of_the_run(run, tmp_path):
    path = new_study(tmp_path / "s", "abx", run)
    item = read_study(path).items[0]
    mine = next(p for p in pairs(run) if p.id == item.id)
    for which in ("clean", "adversarial"):
        assert torch.equal(read_clip(path.parent / item.files[which], RATE_HZ), read_clip(getattr(mine, which), RATE_HZ))


def test_nothing_that_is_there_is_overwritten(run, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        new_study(tmp_path / "s", "abx", run)
    assert (tmp_path / "s" / "notes.txt").read_text() == "mine"


def test_without_a_run_embedded_words_are_attacked_on_the_spot(tmp_path):
    found = made_pairs(tmp_path, 6, ("low", "high"))
    assert Counter(p.loudness for p in found) == {"low": 3, "high": 3}
    for pair in found:
        clean, adversarial = (read_clip(p, RATE_HZ) for p in (pair.clean, pair.adversarial))
        assert 0 < float((clean - adversarial).abs().max()) <= 0.004 + 1 / 32768
        assert pair.heard_as != pair.answer


def test_an_unknown_template_is_answered_with_the_list(tmp_path):
    with pytest.raises(UserError, match="seed000"):
        new_study(tmp_path / "s", "sead000")
