"""`limen listen check`: what would spoil a study is found before the first listener."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
import yaml

from limen.audio.files import write_clip
from limen.core.errors import UserError
from limen.listening.checks.alignment import best_shift
from limen.listening.checks.check import check_study
from limen.listening.new import new_study

RATE_HZ = 16000
TEMPLATES = Path(str(files("limen.listening"))) / "templates"


def noise(seconds: float = 0.5, amplitude: float = 0.1, seed: int = 0) -> torch.Tensor:
    return amplitude * torch.randn(
        round(seconds * RATE_HZ), generator=torch.Generator().manual_seed(seed)
    ).clamp(-3, 3)


def study(folder: Path, change: dict | None = None, items: int = 4, **clips: torch.Tensor) -> Path:
    """A sound ABX study of so many items, with changes to its file and its first item's clips."""
    listed = []
    for i in range(items):
        for k, which in enumerate(("clean", "adversarial")):
            x = noise(seed=2 * i + k)
            x = clips.get(which, x) if i == 0 else x
            write_clip(folder / f"{which}{i}.wav", x, RATE_HZ)
        listed.append(
            {"id": f"item{i}", "files": {"clean": f"clean{i}.wav", "adversarial": f"adversarial{i}.wav"}}
        )
    content = {
        "name": "s",
        "contact": "me",
        "listeners": 20,
        "items": listed,
        "steps": ["consent", "level", {"name": "abx", "catch": 1}],
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**content, **(change or {})}, sort_keys=False))
    return path


def found(path: Path, level: str) -> str:
    return "\n".join(f.text for f in check_study(path) if f.level == level)


def test_a_sound_study_has_no_errors_and_no_warnings(tmp_path):
    path = study(tmp_path)
    assert found(path, "error") == found(path, "warning") == ""
    assert "4 trials" in found(path, "note")


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    path = study(tmp_path)
    (tmp_path / "clean2.wav").unlink()
    assert "clean2.wav" in found(path, "error")


def test_files_outside_the_study_are_refused(tmp_path):
    write_clip(tmp_path / "outside.wav", noise(), RATE_HZ)
    (tmp_path / "in").mkdir()
    items = [{"id": "a", "files": {"clean": "../outside.wav", "adversarial": "../outside.wav"}}]
    assert "outside.wav" in found(study(tmp_path / "in", {"items": items}), "error")


@pytest.mark.parametrize(
    ("clip", "words"),
    [
        (torch.ones(RATE_HZ // 2), "clipped, 8000 samples"),
        (noise(amplitude=1e-4), "almost silent"),
        (noise(seconds=0.6), "differ in length by 100 ms"),
    ],
)
def test_clips_that_give_themselves_away_are_warned_of(clip, words, tmp_path):
    assert words in found(study(tmp_path, adversarial=clip), "warning")


def test_conditions_of_different_loudness_are_warned_of_where_nothing_levels_them(tmp_path):
    louder = noise(amplitude=0.2)
    assert "differ in loudness by 6.0 dB" in found(
        study(tmp_path, {"power_dbfs": None}, adversarial=louder), "warning"
    )
    assert "loudness" not in found(study(tmp_path, adversarial=louder), "warning")


def test_many_items_whose_conditions_differ_in_loudness_are_one_finding(tmp_path):
    path = study(tmp_path, {"power_dbfs": None}, items=6)
    for i in range(6):
        write_clip(tmp_path / f"adversarial{i}.wav", noise(amplitude=0.2, seed=2 * i + 1), RATE_HZ)
    (line,) = [text for text in found(path, "warning").splitlines() if "loudness" in text]
    assert line.startswith(
        "6 items (item0, item1, item2 and 3 more): conditions differ in loudness by up to 6."
    )
    assert "adversarial is the loudest in 6 of 6" in line


def test_different_rates_within_an_item_are_an_error(tmp_path):
    path = study(tmp_path)
    write_clip(tmp_path / "adversarial1.wav", noise(), 8000)
    assert "item1: conditions have different sample rates (clean 16000 Hz, adversarial 8000 Hz)" in found(
        path, "error"
    )


def test_a_rule_that_can_exclude_nobody_is_an_error(tmp_path):
    assert "sentinel" in found(study(tmp_path, {"exclude": [{"name": "sentinels"}]}), "error")


@pytest.mark.parametrize(
    ("rule", "steps", "most"),
    [
        ("headphones", ["headphones", "abx"], 6),
        ("checks", ["headphones", "abx"], 6),
        ("unheard", ["abx"], 4),
        ("sentinels", [{"name": "abx", "sentinels": {"kind": "easy"}}], 1),
    ],
)
def test_a_rule_whose_limit_no_listener_can_exceed_is_an_error(rule, steps, most, tmp_path):
    path = study(tmp_path, {"steps": ["consent", "level", *steps]})
    content = yaml.safe_load(path.read_text())
    content["items"][0]["factors"] = {"kind": "easy"}
    for limit, never in ((most - 1, False), (most, True)):
        path.write_text(yaml.safe_dump(content | {"exclude": [{"name": rule, "most": limit}]}))
        assert (f"`most` has to be below {most}" in found(path, "error")) == never


@pytest.mark.parametrize(
    ("scale", "words"),
    [(["low", "sure"], "possible answers are low, sure"), ([], "none, since no trial asks for confidence")],
)
def test_a_confidence_that_the_scale_lacks_is_an_error(scale, words, tmp_path):
    steps = ["consent", "level", {"name": "abx", "catch": 1, "confidence": scale}]
    change = {"steps": steps, "exclude": [{"name": "catch_confidence"}]}
    text = found(study(tmp_path, change), "error")
    assert "catch_confidence with the values high, but" in text
    assert words in text
    change["exclude"] = [{"name": "catch_confidence", "values": ["sure"]}]
    assert ("catch_confidence" in found(study(tmp_path, change), "error")) == (not scale)


def test_a_question_by_a_factor_that_no_item_has_is_an_error(tmp_path):
    asked = {"name": "Is it heard?", "trial": "abx", "kind": "above_chance"}
    text = found(study(tmp_path, {"hypotheses": [asked | {"by": "nonsense"}]}), "error")
    assert (
        text == 'hypothesis "Is it heard?": is split by nonsense, but no item has such a factor. Factors: '
        "condition, group."
    )
    assert found(study(tmp_path, {"hypotheses": [asked | {"by": "condition"}]}), "error") == ""


@pytest.mark.parametrize(
    "step",
    [
        {"name": "abx", "conditions": ["clean", "xyz"]},
        {"name": "naturalness", "conditions": ["clean", "xyz"]},
        {"name": "mushra", "reference": "xyz"},
        {"name": "same_different", "axes": ["noise"], "condition": "xyz"},
    ],
)
def test_a_condition_without_files_is_named_with_its_column(step, tmp_path):
    text = found(study(tmp_path, {"steps": ["consent", "level", step]}), "error")
    assert f"step 3 ({step['name']}) names the condition xyz, but no item has a file of it" in text
    assert text.endswith("the column file:xyz). Items have files of: clean, adversarial.")


def test_an_abx_of_a_condition_with_itself_is_refused(tmp_path):
    with pytest.raises(
        UserError,
        match="expected two different conditions, got clean twice: A, B and X would be the same clip",
    ):
        check_study(
            study(
                tmp_path, {"steps": ["consent", "level", {"name": "abx", "conditions": ["clean", "clean"]}]}
            )
        )


def test_a_headphone_test_that_no_rule_uses_is_warned_of(tmp_path):
    steps = ["consent", "level", "headphones", "abx"]
    words = "the step headphones has no effect: no rule of exclude uses it. Add {name: headphones, most: 1}"
    assert words in found(study(tmp_path, {"steps": steps}), "warning")
    for rule in ("headphones", "checks"):
        assert "no effect" not in found(
            study(tmp_path, {"steps": steps, "exclude": [{"name": rule}]}), "warning"
        )
    attention = {"name": "attention", "file": "clean0.wav", "word": "a", "others": ["b"]}
    both = {"steps": [*steps, attention], "exclude": [{"name": "headphones"}]}
    assert "the step attention has no effect" in found(study(tmp_path, both), "warning")
    assert "headphones has no effect" not in found(study(tmp_path, both), "warning")


@pytest.mark.parametrize("name", sorted(p.stem for p in TEMPLATES.glob("*.yaml")))
def test_every_check_of_a_template_has_a_rule_that_uses_it(name):
    content = yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text())
    steps = {s if isinstance(s, str) else s["name"] for s in content["steps"]}
    rules = {rule["name"] for rule in content["exclude"]}
    assert not ("headphones" in steps and not rules & {"headphones", "checks"})
    assert ("mushra" in steps) == ("hidden_reference" in rules)


@pytest.mark.parametrize(("shift", "warned"), [(0, ""), (15, ""), (16, "+1.0 ms"), (-160, "-10.0 ms")])
def test_versions_that_are_shifted_in_time_are_warned_of_where_one_can_switch(shift, warned, tmp_path):
    x = noise(0.6)
    other = 0.02 * torch.randn(len(x) - 800, generator=torch.Generator().manual_seed(1))
    clean, late = x[400:-400], x[400 - shift : len(x) - 400 - shift] + other
    words = (
        f"adversarial0.wav lags {warned} behind clean0.wav: a listener who switches between them during "
        "playback hears a jump."
    )
    assert (words in found(study(tmp_path, clean=clean, adversarial=late), "warning")) == bool(warned)
    apart = {"steps": ["consent", "level", {"name": "abx", "switch": False}]}
    assert "lags" not in found(study(tmp_path, apart, clean=clean, adversarial=late), "warning")


def test_a_best_shift_is_found_either_way():
    x = noise(0.3)
    assert best_shift(x[100:], x[:-100], 200) == (100, pytest.approx(1, abs=0.05))
    assert best_shift(x[:-100], x[100:], 200) == (-100, pytest.approx(1, abs=0.05))
    assert best_shift(x, torch.zeros_like(x), 200)[1] == 0


def test_consent_that_comes_after_questions_is_warned_of(tmp_path):
    late = {"steps": ["level", "demographics", "consent", "abx"]}
    assert "consent comes after level, demographics: answers given before it stay" in found(
        study(tmp_path, late), "warning"
    )
    page = {"name": "instructions", "text": "Hello."}
    assert "consent comes" not in found(
        study(tmp_path, {"steps": [page, "consent", "level", "abx"]}), "warning"
    )


def test_rules_about_mushra_need_a_mushra_step_and_an_anchor_that_is_there(tmp_path):
    for rule in ("hidden_reference", "mid_anchor", "headphones"):
        assert f"exclude has the rule {rule}, but no step" in found(
            study(tmp_path, {"exclude": [{"name": rule}]}), "error"
        )
    steps = ["consent", "level", {"name": "mushra", "anchors_hz": [3500]}]
    lost = found(study(tmp_path, {"steps": steps, "exclude": [{"name": "mid_anchor"}]}), "error")
    assert (
        "exclude has the rule mid_anchor about 'low-pass 7 kHz', but what is rated is adversarial, clean, "
        "low-pass 3.5 kHz." in lost
    )
    assert (
        found(
            study(
                tmp_path, {"steps": steps, "exclude": [{"name": "mid_anchor", "anchor": "low-pass 3.5 kHz"}]}
            ),
            "error",
        )
        == ""
    )


def test_a_hypothesis_about_trials_that_do_not_exist_is_an_error(tmp_path):
    wrong = {"hypotheses": [{"name": "h", "trial": "mushra", "kind": "different"}]}
    assert 'hypothesis "h": no step has any mushra trial' in found(study(tmp_path, wrong), "error")


def test_too_few_listeners_for_the_effect_asked_for_are_warned_of_with_the_number_it_takes(tmp_path):
    # 4 trials each, intraclass correlation 0.05: L listeners are worth 4 L / 1.15 answers
    asked = [{"name": "h", "trial": "abx", "effect": 0.65}]
    few, many = ({"hypotheses": asked, "listeners": n} for n in (5, 60))
    assert "5 are planned, which is too few" in found(study(tmp_path, few), "warning")
    assert "60 are planned." in found(study(tmp_path, many), "note")


def test_equivalence_is_planned_with_the_bound_of_listeners_who_may_hear_it(tmp_path):
    asked = [{"name": "h", "trial": "abx", "kind": "equivalent", "bound": 0.3}]
    few = {"hypotheses": asked, "listeners": 13, "steps": ["consent", "level", {"name": "abx", "trials": 12}]}
    said = found(study(tmp_path, few, items=12), "warning")
    assert "at most 20 % of listeners who may hear it" in said
    assert "13 are planned, which is too few" in said


def test_questions_are_planned_with_holms_worst_case_of_all_that_are_corrected_together(tmp_path):
    one, two = ({"name": name, "trial": "abx", "effect": 0.65} for name in ("h", "g"))
    by = {"name": "by", "trial": "abx", "effect": 0.65, "by": "condition"}
    listeners, trials = [], {"listeners": 200, "steps": ["consent", "level", {"name": "abx", "trials": 8}]}
    for asked in ([one], [one, two], [one, two, by]):
        path = study(tmp_path, {**trials, "hypotheses": asked}, items=16)
        (said,) = [line for line in found(path, "note").splitlines() if '"h"' in line]
        listeners.append(int(said.split(": ")[1].split()[0]))
        assert ("Holm" in said) == (len(asked) > 1)
    assert listeners[0] < listeners[1] < listeners[2]
    # the last is asked once for the two conditions that every trial has
    assert "alpha 0.05 / 3: Holm's correction over 3 tests, worst case" in said


@pytest.mark.parametrize(
    "name", ["abx", "identification", "mushra", "naturalness", "preference", "same_different_jnd"]
)
def test_a_template_asks_for_as_many_listeners_as_its_questions_take(name, tmp_path):
    """Not seed000, which has the listeners of the published study."""
    path = new_study(tmp_path / name, name)
    assert "too few" not in found(path, "warning")
    assert "same_different" in name or "listeners reach" in found(path, "note")


def test_consent_level_and_completion_code_are_missed_when_they_are_missing(tmp_path):
    bare = {"steps": ["abx"], "recruitment": {"redirect": "https://site.example/done"}}
    warnings = found(study(tmp_path, bare), "warning")
    assert all(words in warnings for words in ("consent", "level", "{code}"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- just\n- a list", "keys and values"),
        ("name: [", "cannot be read as YAML"),
        ("name: s\nsteps: [potion]", 'no trial type "potion"'),
        ("name: s\nsteps: [{name: abx, trails: 3}]", 'Did you mean "trials"'),
        ("name: S!\nsteps: [consent]", "name"),
        ("name: s\nitems: none.csv\nsteps: [consent]", "no such table of items"),
        (
            "name: s\nitems: [{id: a, files: {c: x}}, {id: a, files: {c: x}}]\nsteps: [consent]",
            "more than once",
        ),
        ("name: &a [*a]\nsteps: [consent]", "name"),
        ("name: s\nsteps: []", "steps"),
        ("name: s\nlisteners: .inf\nsteps: [consent]", "listeners"),
    ],
)
def test_a_hostile_study_file_gets_one_clear_message(content, words, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=words):
        check_study(path)


def test_a_study_file_of_binary_rubbish_gets_a_clear_message(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="cannot be read"):
        check_study(path)
