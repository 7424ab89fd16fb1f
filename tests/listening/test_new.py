"""A study from a template or from a run: served at once, balanced, and checked before anybody listens."""

import csv
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import limen
from limen.audio.files import read_clip, write_clip
from limen.core.errors import UserError
from limen.core.yaml import read_yaml
from limen.listening.analysis.exclusions import exclusions
from limen.listening.analysis.export import rows
from limen.listening.checks.check import check_study
from limen.listening.demo_pairs import demo_pairs
from limen.listening.design import screens
from limen.listening.from_run import ClipPair, balanced, pairs
from limen.listening.new import alternating, new_study, templates
from limen.listening.server.store import Store
from limen.listening.simulation.simulate import simulate, simulated_database
from limen.listening.study import Study, clips_of, read_study
from limen.trials.base.screen import Screen

RATE_HZ = 16000
WORDS = ("yes", "no", "on", "off")


def tone(hz: float, amplitude: float) -> torch.Tensor:
    return amplitude * torch.sin(2 * torch.pi * hz * torch.arange(RATE_HZ // 4) / RATE_HZ)


def make_run(folder: Path, clips: int, exported: bool = True) -> Path:
    """A run folder of clips in three loudness levels, of which every third did not fool the model; all of
    them exported, or three kept as examples."""
    cell = folder / "cells" / "a1"
    cell.mkdir(parents=True)
    (cell / "cell.json").write_text(json.dumps({"kind": "clip", "labels": {"attack": "pgd"}}))
    rows, kept = [], "adversarial" if exported else "examples"
    for i in range(clips):
        word, amplitude = WORDS[i % 4], (0.003, 0.05, 0.5)[i * 3 // clips]
        for which, extra in (("clean", 0.0), ("adversarial", 0.002)):
            write_clip(
                cell / kept / which / f"{i}.wav", tone(300 + i, amplitude) + tone(2000, extra), RATE_HZ
            )
        fooled = i % 3 != 0
        rows.append(
            {
                "id": f"clip {i}",
                "clean": f"clean/{i}.wav",
                "adversarial": f"adversarial/{i}.wav",
                "label": word,
                "clean_prediction": word,
                "adversarial_prediction": "stop" if fooled else word,
                "success": fooled,
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), cell / "rows.parquet")
    if exported:
        with (cell / "adversarial" / "table.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        examples = [
            {**row, "files": {k: f"examples/{row[k]}" for k in ("clean", "adversarial")}}
            for row in rows
            if row["success"]
        ][:3]
        (cell / "examples.json").write_text(json.dumps(examples))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 pairs of each loudness level."""
    return make_run(tmp_path_factory.mktemp("run"), 90)


def everybody(study: Study) -> list[list[Screen]]:
    """The screens of every listener whom the study wants."""
    each = -(-study.listeners // len(study.cells))
    return [screens(study, group, number) for group in study.cells for number in range(each)]


def test_only_pairs_that_the_model_had_right_and_then_wrong_are_taken(run):
    found = pairs(run)
    assert len(found) == 60
    assert {p.heard_as for p in found} == {"stop"}
    assert Counter(p.loudness for p in found) == {"low": 20, "medium": 20, "high": 20}


def test_pairs_are_chosen_evenly_over_loudness_and_words(run):
    chosen = balanced(pairs(run), 12)
    assert Counter(p.loudness for p in chosen) == {"low": 4, "medium": 4, "high": 4}
    assert Counter(p.answer for p in chosen) == dict.fromkeys(WORDS, 3)
    assert len({p.id for p in chosen}) == 12
    assert chosen == balanced(pairs(run), 12)


def test_pairs_of_several_attacks_are_chosen_evenly_over_them(run):
    twice = [replace(p, attack=attack) for p in pairs(run) for attack in ("pgd", "fgsm")]
    chosen = balanced(twice, 12)
    assert Counter(p.attack for p in chosen) == {"pgd": 6, "fgsm": 6}
    assert len({p.id for p in chosen}) == 12


def test_a_study_takes_the_clips_of_one_data_set(tmp_path):
    run = make_run(tmp_path / "run", 30)
    other = make_run(tmp_path / "other", 9) / "cells" / "a1"
    (other / "cell.json").write_text(
        json.dumps({"kind": "clip", "labels": {"attack": "pgd", "data": "sentences"}})
    )
    other.rename(run / "cells" / "b2")
    assert {p.data for p in pairs(run)} == {""}
    assert len(pairs(run)) == 20


def swept(folder: Path, clips: int = 36) -> Path:
    """A run of one attack at two strengths, the weak one first."""
    run = make_run(folder / "run", clips)
    for k, eps in enumerate((0.01, 0.05)):
        cell = run / "cells" / "a1" if k == 0 else make_run(folder / "again", clips) / "cells" / "a1"
        facts = {
            "kind": "clip",
            "order": k,
            "labels": {"attack": "pgd"},
            "variable": {"attack.budget.eps": eps},
        }
        (cell / "cell.json").write_text(json.dumps(facts))
        cell.rename(run / "cells" / ("z9", "a0")[k])
    return run


def test_strengths_of_a_sweep_are_not_mixed_into_one_condition(tmp_path):
    run = swept(tmp_path)
    with pytest.raises(
        UserError,
        match=r'several values of pgd \(eps 0\.01, eps 0\.05\), which .* mix\. Name one: --value "eps 0\.05"',
    ):
        new_study(tmp_path / "s", "naturalness", run)
    with pytest.raises(UserError, match=r'no value "eps 1" of a sweep\. There are: eps 0\.01, eps 0\.05\.'):
        pairs(run, value="eps 1")
    for value, cell in (("eps 0.01", "z9"), ("eps 0.05", "a0")):
        assert {(p.value, p.clean.parents[2].name) for p in pairs(run, value=value)} == {(value, cell)}
    study = read_study(new_study(tmp_path / "s", "naturalness", run, value="eps 0.05"))
    assert {item.factors["value"] for item in study.items} == {"eps 0.05"}


def test_an_audit_is_no_attack_of_a_study(tmp_path):
    run = make_run(tmp_path / "run", 9)
    audit = make_run(tmp_path / "other", 9) / "cells" / "a1"
    (audit / "cell.json").write_text(
        json.dumps(
            {
                "kind": "clip",
                "task": "audit",
                "task_info": {"diagnostic": True},
                "labels": {"attack": "audit"},
            }
        )
    )
    audit.rename(run / "cells" / "b2")
    assert {p.attack for p in pairs(run)} == {"pgd"}
    with pytest.raises(UserError, match=r'no attack "cw" on clips\. There are: pgd\.'):
        pairs(run, "cw")
    with pytest.raises(UserError, match='no attack "audit"'):
        pairs(run, "audit")


def test_what_the_model_heard_is_kept_beside_the_items_and_is_no_factor_of_theirs(run, tmp_path):
    study = read_study(new_study(tmp_path / "s", "seed000", run))
    assert {name for item in study.items for name in item.factors} == {"part", "loudness", "attack"}
    with (tmp_path / "s" / "sources.csv").open(newline="") as file:
        sources = list(csv.DictReader(file))
    assert [row["id"] for row in sources] == [item.id for item in study.items]
    assert {row["heard_as"] for row in sources} == {"stop"}
    assert {row["clip"] for row in sources} <= {p.id for p in pairs(run)}


def test_a_clip_attacked_twice_is_heard_once():
    pair = ClipPair("a", Path("a"), Path("b"), "yes", "no", "pgd", "low")
    assert balanced([pair, replace(pair, attack="fgsm")], 5) in ([pair], [replace(pair, attack="fgsm")])


def test_items_that_are_alike_stand_at_odd_and_even_places_in_turn(run):
    ordered = alternating(balanced(pairs(run), 24), seed=3)
    for key in ("answer", "loudness"):
        odd, even = (Counter(getattr(p, key) for p in ordered[k::2]) for k in (0, 1))
        assert all(abs(odd[v] - even[v]) <= 1 for v in odd | even)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("words", range(2, 11))
def test_every_word_stands_at_odd_and_even_places_equally_often_whatever_else_is_balanced(words, levels):
    for n in (5, 12, 18, 24):
        chance = random.Random(n)
        mine = [
            ClipPair(
                str(k),
                Path("a"),
                Path("b"),
                f"word {chance.randrange(words)}",
                "stop",
                chance.choice(("pgd", "fgsm")),
                ("low", "medium", "high")[chance.randrange(levels)],
            )
            for k in range(n)
        ]
        ordered = alternating(mine, seed=3)
        assert sorted(ordered, key=str) == sorted(mine, key=str)
        odd, even = (Counter(p.answer for p in ordered[k::2]) for k in (0, 1))
        assert all(abs(odd[w] - even[w]) <= 1 for w in odd | even)


@pytest.mark.parametrize("template", ["seed000", "naturalness", "identification"])
def test_no_listener_is_told_the_condition_by_the_word(template, run, tmp_path):
    study = read_study(new_study(tmp_path / "s", template, run))
    said = {item.id: item.answer for item in study.items}
    for planned in everybody(study):
        trials = [s for s in planned if s.role == "trial" and s.kind in ("naturalness", "identification")]
        clean, adversarial = (
            Counter(said[s.facts["item"]] for s in trials if s.facts["condition"] == c)
            for c in ("clean", "adversarial")
        )
        assert all(abs(clean[word] - adversarial[word]) <= 1 for word in WORDS)


@pytest.mark.parametrize("template", sorted(templates()))
def test_no_listener_of_any_template_meets_a_pair_twice(template, run, tmp_path):
    study = read_study(new_study(tmp_path / "s", template, run, seed=0))
    for planned in everybody(study):
        asked = [
            s
            for s in planned
            if s.sounds and s.role in ("trial", "teaching", "catch") and s.kind != "same_different"
        ]
        first = [s.facts["item"] for s in asked if s.role != "catch"]
        assert len(first) == len(set(first))
        # a catch trial has a clip of its own, but in the published study, which has six pairs and no more
        assert template == "seed000" or len({s.facts["item"] for s in asked}) == len(asked)
        # the same audio under another name would be the same pair too
        heard = [frozenset(sound.stimulus.file for sound in s.sounds) for s in asked if s.role != "catch"]
        assert len(heard) == len(set(heard))


@pytest.mark.parametrize("template", ["seed000", "naturalness", "identification"])
def test_every_clip_and_every_word_is_heard_in_either_condition_equally_often(template, run, tmp_path):
    study = read_study(new_study(tmp_path / "s", template, run, seed=0))
    said = {item.id: item.answer for item in study.items}
    trials = [
        s
        for planned in everybody(study)
        for s in planned
        if s.role == "trial" and s.kind in ("naturalness", "identification")
    ]
    for of in (
        lambda s: s.facts["item"],
        lambda s: said[s.facts["item"]],
        lambda s: s.facts["group"],
        lambda s: s.facts["loudness"],
    ):
        clean, adversarial = (
            Counter(of(s) for s in trials if s.facts["condition"] == c) for c in ("clean", "adversarial")
        )
        assert clean == adversarial


@pytest.mark.parametrize(
    ("template", "clips", "words"),
    [
        ("abx", 9, "needs 16 different clips that .* there are 6"),
        ("identification", 9, "needs 12 different clips that .* there are 6"),
        ("mushra", 6, "needs 6 different clips that .* there are 4"),
        ("naturalness", 9, "needs 12 different clips that .* there are 6"),
        ("preference", 9, "needs 12 different clips that .* there are 6"),
        ("same_different_jnd", 6, "needs 6 different clips that .* there are 4"),
        ("seed000", 9, r"needs 18 different clips of each loudness .* there are 2 low, 2 medium, 2 high"),
    ],
)
def test_a_run_with_too_few_clips_is_refused_with_the_number_that_is_needed(template, clips, words, tmp_path):
    with pytest.raises(UserError, match=words + r".*raise `limit` of its data"):
        new_study(tmp_path / "s", template, make_run(tmp_path / "run", clips), seed=0)
    assert not (tmp_path / "s").exists()
    assert not list(tmp_path.glob("*.part"))


def test_a_run_that_kept_only_examples_is_told_how_to_keep_all_of_them(tmp_path):
    with pytest.raises(
        UserError,
        match=r"there are 3\. .*of 60 such clips the run kept only a few examples.*`examples:`.*`export: "
        r"wav`",
    ):
        new_study(tmp_path / "s", "abx", make_run(tmp_path / "run", 90, exported=False), seed=0)


def test_the_refusal_says_about_how_many_clips_to_attack(tmp_path):
    # 12 of 18 attacked ones are pairs; 16 are needed: 18 * 16 / 12 = 24, and a fifth more to be safe
    with pytest.raises(UserError, match=r"at most 18 now, about 30 are needed"):
        new_study(tmp_path / "s", "abx", make_run(tmp_path / "run", 18), seed=0)


def test_an_attack_that_the_run_does_not_have_is_named_with_those_it_has(run):
    with pytest.raises(UserError, match=r'no attack "cw".*pgd'):
        pairs(run, "cw")


def test_a_folder_that_is_no_run_says_so(tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        pairs(tmp_path)


@pytest.mark.parametrize("template", sorted(templates()))
def test_every_template_with_the_clips_of_a_run_is_a_study_without_errors(template, run, tmp_path):
    path = new_study(tmp_path / "Study 1", template, run, seed=0)
    study = read_study(path)
    assert study.name == "study-1"
    assert [f.text for f in check_study(path) if f.level == "error"] == []
    assert all(any(s.role == "trial" for s in screens(study, group, 0)) for group in study.cells)
    assert not list(tmp_path.glob("*.part"))


def test_the_published_study_has_nine_experiments_of_twelve_clips_and_six_abx_trials_and_one_catch_trial(
    run, tmp_path
):
    study = read_study(new_study(tmp_path / "s", "seed000", run, seed=0))
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


def test_experiments_of_a_small_run_share_clips_but_compare_others_in_abx(tmp_path):
    study = read_study(new_study(tmp_path / "s", "seed000", make_run(tmp_path / "run", 81)))
    clips = clips_of(study.items)
    for level in ("low", "medium", "high"):
        mine = [item for item in study.items if item.factors["loudness"] == level]
        assert len({clips[item.id] for item in mine}) == 18
        assert len({clips[item.id] for item in mine if item.factors["part"] == "2"}) == 18


@pytest.mark.parametrize("template", sorted(templates()))
def test_every_template_can_be_rehearsed_its_rules_keep_most_simulated_listeners(template, run, tmp_path):
    path = new_study(tmp_path / "s", template, run)
    study = read_study(path)
    simulate(path, study.listeners, audio=False)
    store = Store(simulated_database(path))
    out = exclusions(study, rows(store.answers(), store.listeners(), study))
    store.close()
    assert out.listeners == study.listeners
    assert out.kept > 0.8 * study.listeners


def test_the_audio_of_a_study_is_that_of_the_run(run, tmp_path):
    path = new_study(tmp_path / "s", "abx", run, seed=0)
    item = read_study(path).items[0]
    mine = next(p for p in pairs(run) if p.id == item.id)
    for which in ("clean", "adversarial"):
        assert torch.equal(
            read_clip(path.parent / item.files[which], RATE_HZ), read_clip(getattr(mine, which), RATE_HZ)
        )


def test_nothing_that_is_there_is_overwritten(run, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        new_study(tmp_path / "s", "abx", run, seed=0)
    assert (tmp_path / "s" / "notes.txt").read_text() == "mine"


def test_without_a_run_embedded_words_are_attacked_on_the_spot(tmp_path):
    found = demo_pairs(tmp_path, 6, ("low", "high"))
    assert Counter(p.loudness for p in found) == {"low": 3, "high": 3}
    for pair in found:
        clean, adversarial = (read_clip(p, RATE_HZ) for p in (pair.clean, pair.adversarial))
        assert 0 < float((clean - adversarial).abs().max()) <= 0.004 + 1 / 32768
        assert pair.heard_as != pair.answer


def test_the_demo_keeps_its_clips_for_a_study():
    # `limen listen new study --from runs/demo-...` of the README: 16 of 24 clips, where examples alone would
    # be two of each cell
    demo = read_yaml(Path(limen.__file__).parent / "experiments" / "demo.yaml")
    words = next(entry for entry in demo["tasks"] if entry["nets"][0]["data"]["name"] == "spoken_words")
    assert words["task"]["export"]
    assert words["nets"][0]["data"]["limit"] >= 24


def test_an_unknown_template_is_answered_with_the_list(tmp_path):
    with pytest.raises(UserError, match="seed000"):
        new_study(tmp_path / "s", "sead000", seed=0)
