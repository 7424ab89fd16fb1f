"""What gives a condition away is found in any study file, and nothing is found in a sound one."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from limen.audio.files import write_clip
from limen.listening.checks.check import ClipStats, Finding, check_study
from limen.listening.checks.confounds import confounds
from limen.listening.design import screens
from limen.listening.new import new_study, templates
from limen.listening.statistics.guessing import from_items
from limen.listening.study import Study

WORDS = ("yes", "no", "up", "down")
SPEAKERS = ("ann", "bob", "cy")
Clip = dict[str, Any]


def clip(k: int, conditions: tuple[str, ...] = ("clean", "adversarial"), **more: Any) -> Clip:
    return {
        "id": f"clip {k}",
        "files": {c: f"{c}{k}.wav" for c in conditions},
        "answer": WORDS[k % 4],
        "factors": {"speaker": SPEAKERS[k % 3]},
    } | more


def turning(k: int, **more: Any) -> Clip:
    """Words stand at odd and even places in turn, and so do speakers: for `each: one`."""
    return clip(k, answer=WORDS[k // 2 % 4], **more)


def study(items: list[Clip], step: Any = "naturalness", **more: Any) -> Study:
    return Study.model_validate({"name": "s", "items": items, "steps": [step], "listeners": 20} | more)


def sounds(plan: Study, **change: Any) -> dict[str, ClipStats]:
    """Files of different contents that sound alike; `change` gives power or seconds by condition."""
    out = {}
    for item in plan.items:
        for condition, file in item.files.items():
            power, seconds = (
                change.get(what, {}).get(condition, usual)
                for what, usual in (("power", -26.0), ("seconds", 1.0))
            )
            spread = random.Random(file).uniform(-0.1, 0.1)
            out[file] = ClipStats(16000, 1, seconds * (1 + spread / 100), power + spread, 0, file)
    return out


def found(plan: Study, **change: Any) -> list[tuple[str, str]]:
    return [(f.level, f.text) for f in confounds(plan, sounds(plan, **change))]


def one(findings: list[tuple[str, str]], words: str) -> str:
    """The level of the only finding with these words."""
    (level,) = [level for level, text in findings if words in text]
    return level


def split(k: int) -> tuple[str, ...]:
    """Every clip in one condition, in turn over words and speakers."""
    return ("clean",) if k // 12 % 2 else ("adversarial",)


@pytest.mark.parametrize("each", ["one", "all"])
@pytest.mark.parametrize("n", [2, 4, 6, 12])
def test_a_counterbalanced_study_is_sound_however_small(n: int, each: str) -> None:
    plan = study([turning(k) for k in range(n)], {"name": "naturalness", "each": each})
    assert found(plan) == []


@pytest.mark.parametrize("name", ["abx", "preference", "identification", "mushra"])
@pytest.mark.parametrize("listeners", [2, 5, 20, 40])
def test_trial_types_of_ours_give_nothing_away(name: str, listeners: int) -> None:
    # one and the same number of words and of turns of X would tie them for few listeners: 7 clips
    assert found(study([clip(k) for k in range(7)], name, listeners=listeners)) == []


def test_a_word_that_is_heard_in_one_condition_only_is_an_error() -> None:
    items = [clip(k, ("clean",) if k % 2 else ("adversarial",)) for k in range(24)]
    findings = found(study(items))
    assert (
        one(
            findings,
            "the condition can be guessed from the word (`answer`): the best guess is correct in 100 %",
        )
        == "error"
    )
    assert not [text for _, text in findings if "factor speaker" in text]


def test_a_speaker_who_is_heard_in_one_condition_only_is_an_error() -> None:
    items = [clip(k, ("clean",) if k % 3 else ("adversarial",)) for k in range(24)]
    assert one(found(study(items)), "from the factor speaker") == "error"


def test_a_few_words_of_one_clip_each_are_tied_to_their_condition_too() -> None:
    items = [
        clip(k, ("clean",) if k % 2 else ("adversarial",), answer=f"word {k}", factors={}) for k in range(8)
    ]
    assert one(found(study(items)), "the word") == "error"


def test_fifty_sentences_in_each_condition_are_warned_of_and_no_more() -> None:
    items = [
        clip(k, ("clean",) if k % 2 else ("adversarial",), answer=f"sentence {k}", factors={})
        for k in range(100)
    ]
    ((level, text),) = found(study(items))
    assert level == "warning"
    assert "every clip is heard in one condition only" in text


def test_a_word_that_leans_to_a_condition_is_a_warning_that_says_how_much() -> None:
    # 40 clips of each condition; four of five of "yes" and "no" are clean, one of five of the others
    items = [clip(k, ("clean",) if (k % 5 == 0) == (k % 4 >= 2) else ("adversarial",)) for k in range(80)]
    findings = found(study(items))
    assert one(findings, "the word (`answer`): the best guess is correct in 80 %") == "warning"
    assert not [text for _, text in findings if "factor speaker" in text]


def test_clips_dealt_to_conditions_at_random_raise_no_alarm() -> None:
    alarms = 0
    for seed in range(60):
        chance = random.Random(seed)
        conditions = chance.sample(["clean", "adversarial"] * 12, 24)
        items = [
            clip(k, (c,), answer=chance.choice(WORDS), factors={"speaker": chance.choice(SPEAKERS)})
            for k, c in enumerate(conditions)
        ]
        alarms += any("can be guessed" in text for _, text in found(study(items, seed=seed)))
    assert alarms <= 1


@pytest.mark.parametrize("factor", ["the word (`answer`)", "the factor speaker"])
def test_a_word_or_speaker_that_takes_turns_with_the_condition_tells_each_listener(factor: str) -> None:
    # item k is clean for every second listener, adversarial for the others: over all of them everything is
    # balanced
    two = {"answer": WORDS[0]} if "speaker" in factor else {"factors": {}}
    items = [
        clip(k, **({"answer": WORDS[k % 2], "factors": {"speaker": SPEAKERS[k % 2]}} | two))
        for k in range(12)
    ]
    ((level, text),) = found(study(items, {"name": "naturalness", "each": "one"}))
    assert level == "error"
    assert (
        f"within a listener, the condition can be guessed from {factor}: the best guess is correct in 100 %"
        in text
    )
    assert "odd and even places" in text


@pytest.mark.parametrize("factor", ["answer", "speaker"])
def test_a_word_or_speaker_tied_in_one_group_and_reversed_in_the_next_is_an_error(factor: str) -> None:
    def told(k: int) -> Clip:
        first, tied = k < 12, ("clean",) if (k % 2 == 0) == (k < 12) else ("adversarial",)
        free, told = WORDS[k // 2 % 4], ("ann", "bob")[k % 2]
        said = (
            {"answer": told, "factors": {}}
            if factor == "answer"
            else {"answer": free, "factors": {"speaker": told}}
        )
        return clip(k, tied, group="g1" if first else "g2", **said)

    findings = found(study([told(k) for k in range(24)]))
    assert one(findings, "within a listener, the condition can be guessed from") == "error"


def test_what_tells_each_listener_all_is_an_error_although_it_only_leans_over_all_of_them() -> None:
    # three listeners of 24 clips: each clip is twice in one condition and once in the other
    items = [turning(k, factors={"speaker": SPEAKERS[k % 2]}) for k in range(24)]
    findings = found(study(items, {"name": "naturalness", "each": "one"}, listeners=3))
    assert [level for level, text in findings if "factor speaker" in text] == ["error"]


def test_a_factor_that_takes_turns_with_the_condition_is_warned_of() -> None:
    items = [turning(k, factors={"room": ("hall", "hut")[k % 2]}) for k in range(12)]
    ((level, text),) = found(study(items, {"name": "naturalness", "each": "one"}))
    assert level == "warning"
    assert "within a listener, the condition can be guessed from the factor room" in text


@pytest.mark.parametrize("seed", range(8))
def test_a_table_in_random_order_raises_no_alarm_within_listeners(seed: int) -> None:
    chance = random.Random(seed)
    items = [clip(k, answer=WORDS[k % 4]) for k in chance.sample(range(24), 24)]
    for listeners in (3, 8, 40):
        assert (
            found(study(items, {"name": "naturalness", "each": "one"}, listeners=listeners, seed=seed)) == []
        )


def test_steps_of_one_trial_type_with_a_condition_each_are_an_error() -> None:
    steps = [{"name": "naturalness", "conditions": [c]} for c in ("clean", "adversarial")]
    ((level, text),) = found(study([clip(k) for k in range(12)], steps=steps))
    assert level == "error"
    assert text.startswith(
        "steps 1, 2 (naturalness): the condition can be guessed from the step: the best guess is correct in 100 %"
    )


def test_steps_are_taken_together_in_what_words_tell_and_in_what_a_single_clip_stands_for() -> None:
    steps = [
        {"name": "naturalness", "where": {"part": part}, "conditions": [c]}
        for part, c in ((1, "clean"), (2, "adversarial"))
    ]
    tied = [clip(k, answer=WORDS[2 * (k // 12) + k % 2], factors={"part": 1 + k // 12}) for k in range(24)]
    assert one(found(study(tied, steps=steps)), "the condition can be guessed from the word") == "error"
    single = [clip(k, factors={"part": 1 if k < 6 else 2}) for k in range(7)]
    findings = found(study(single, steps=[steps[0], steps[1] | {"trials": 6}]))
    assert one(findings, "condition adversarial has a single clip") == "error"


def test_steps_that_hold_all_conditions_raise_no_alarm() -> None:
    steps = [{"name": "naturalness", "each": "one", "where": {"part": part}} for part in (1, 2)]
    assert found(study([turning(k, factors={"part": 1 + k // 12}) for k in range(24)], steps=steps)) == []


def test_comparisons_of_other_conditions_in_steps_of_their_own_are_warned_of() -> None:
    steps = [{"name": "abx", "conditions": ["clean", c]} for c in ("adversarial", "noise")]
    findings = found(study([clip(k, ("clean", "adversarial", "noise")) for k in range(8)], steps=steps))
    assert one(findings, "the condition can be guessed from the step") == "warning"


@pytest.mark.parametrize("name", ["answer", "speaker_id"])
def test_words_and_speakers_that_are_numbers_are_names(name: str) -> None:
    def named(k: int) -> Clip:
        number = str(100 + k % 10)
        said = (
            {"answer": number, "factors": {}}
            if name == "answer"
            else {"answer": WORDS[k // 10 % 4], "factors": {name: number}}
        )
        return clip(k, ("clean",) if k % 2 else ("adversarial",), **said)

    assert one(found(study([named(k) for k in range(40)])), "the condition can be guessed from") == "error"


def test_a_number_whose_values_tell_and_whose_quarters_do_not_is_warned_of() -> None:
    items = [clip(k, split(k), factors={"take": (2 * k + k // 12 % 2) % 24}) for k in range(48)]
    assert one(found(study(items)), "the condition can be guessed from the factor take") == "warning"
    # a number of its own for every clip says nothing
    assert not [
        text
        for _, text in found(study([clip(k, split(k), factors={"take": 7 * k % 48}) for k in range(48)]))
        if "take" in text
    ]


def test_a_condition_that_is_heard_with_a_single_word_or_speaker_is_warned_of() -> None:
    items = [
        clip(k, ("clean", "adversarial", "noise") if k % 4 == 0 else ("clean", "adversarial"), factors={})
        for k in range(12)
    ]
    ((level, text),) = found(study(items))
    assert level == "warning"
    assert "a condition is heard with a single word (`answer`), others with more (noise with yes)" in text


def test_the_same_pairs_in_abx_and_in_preference_are_warned_of() -> None:
    ((level, text),) = found(study([clip(k) for k in range(7)], steps=["abx", "preference"]))
    assert level == "warning"
    assert text.startswith("abx and preference: the same listener compares the same sounds in both")
    assert "for 20 of 20 listeners" in text
    assert found(study([clip(k) for k in range(7)], steps=["abx", "naturalness"])) == []


@pytest.mark.parametrize(
    ("what", "values"), [("power_dbfs", (-32.0, -26.0, -20.0)), ("seconds", (0.8, 1.0, 1.2))]
)
def test_a_condition_between_two_levels_or_lengths_of_the_other_is_found(
    what: str, values: tuple[float, float, float]
) -> None:
    plan = study([clip(k, split(k), answer=f"word {k}") for k in range(48)], power_dbfs=None)
    low, middle, high = values
    heard = sounds(plan)
    for k, item in enumerate(plan.items):
        (condition,) = item.files
        value = middle if condition == "adversarial" else (low, high)[k % 2]
        heard[item.files[condition]] = replace(heard[item.files[condition]], **{what: value})
    findings = [(f.level, f.text) for f in confounds(plan, heard)]
    assert (
        one(findings, "the loudness (medians" if what == "power_dbfs" else "the length (medians") == "error"
    )


def test_the_level_of_a_condition_is_found_unless_the_study_sets_all_to_one() -> None:
    items = [clip(k) for k in range(8)]
    louder = {"adversarial": -20.0}
    assert (
        one(found(study(items, power_dbfs=None), power=louder), "the loudness (medians: adversarial -20")
        == "error"
    )
    assert found(study(items), power=louder) == []
    # less than can be heard
    assert found(study(items, power_dbfs=None), power={"adversarial": -25.8}) == []


def test_the_length_of_a_condition_is_found() -> None:
    assert (
        one(found(study([clip(k) for k in range(8)]), seconds={"adversarial": 1.3}), "the length (medians")
        == "error"
    )


def test_conditions_in_blocks_are_found() -> None:
    items = [clip(k, split(k)) for k in range(24)]
    step = {"name": "naturalness", "order": "file"}
    findings = found(study(items, step))
    assert one(findings, "from the position of the trial: the best guess is correct in 100 %") == "error"
    assert not [text for _, text in found(study(items)) if "can be guessed" in text]


def test_conditions_in_turn_are_found_although_places_are_balanced_over_listeners() -> None:
    step = {"name": "naturalness", "each": "one", "order": "file"}
    ((level, text),) = found(study([turning(k) for k in range(8)], step))
    assert level == "error"
    assert "from the trial before it" in text
    assert "`order: random`" in text
    assert "seed" not in text  # which changes nothing in the order of the file


@pytest.mark.parametrize("n", [4, 7, 12])
@pytest.mark.parametrize("conditions", [("clean", "adversarial"), ("clean", "adversarial", "noise")])
def test_a_latin_order_gives_no_condition_away_and_leaves_clips_balanced(
    n: int, conditions: tuple[str, ...]
) -> None:
    items = [clip(k, conditions, answer=f"word {k}", factors={}) for k in range(n)]
    plan = study(
        items, {"name": "naturalness", "each": "one", "order": "latin"}, listeners=4 * len(conditions) ** 2
    )
    assert [text for _, text in found(plan) if "can be guessed" in text] == []
    times = Counter(
        (s.facts["item"], s.facts["condition"]) for k in range(plan.listeners) for s in screens(plan, "", k)
    )
    assert set(times.values()) == {4 * len(conditions)}


@pytest.mark.parametrize("name", ["abx", "preference"])
def test_a_latin_order_gives_neither_x_nor_the_first_sound_away(name: str) -> None:
    assert found(study([clip(k) for k in range(12)], {"name": name, "order": "latin"}, listeners=48)) == []


def test_a_condition_that_a_single_clip_stands_for_is_an_error_that_names_it() -> None:
    items = [clip(0, ("adversarial",)), *(clip(k, ("clean",)) for k in range(1, 9))]
    findings = found(study(items))
    assert (
        one(findings, "condition adversarial has a single clip and other conditions have other clips")
        == "error"
    )


def test_copies_of_a_clip_are_the_same_clip() -> None:
    # as if 12 items of a table were made of two pairs
    items = [clip(k, ("clean",) if k % 2 else ("adversarial",)) for k in range(12)]
    plan = study(items, groups=[])
    heard = {
        file: ClipStats(16000, 1, 1.0, -26.0, 0, f"{condition}")
        for i in plan.items
        for condition, file in i.files.items()
    }
    findings = [(f.level, f.text) for f in confounds(plan, heard)]
    assert one(findings, "condition clean has a single clip") == "error"
    assert one(findings, "the same listener gets the same sounds more than once") == "warning"


def test_a_group_that_hears_one_pair_in_all_its_trials_is_named() -> None:
    items = [clip(0, group="g1"), *(clip(k, group="g2") for k in range(1, 7))]
    findings = found(study(items, {"name": "abx", "trials": 6}))
    assert (
        one(
            findings,
            "abx: the same listener gets the same sounds more than once and may answer from memory: for 10 of "
            "20",
        )
        == "warning"
    )
    assert one(findings, "every trial is about one clip (clip 0) for listeners of g1") == "warning"


def test_a_pair_that_one_was_taught_with_is_no_trial() -> None:
    again = {"name": "abx", "teaching": 2}
    assert one(found(study([clip(k) for k in range(6)], again)), "more than once") == "warning"
    assert found(study([clip(k) for k in range(8)], again | {"trials": 6})) == []


def test_groups_that_hear_one_condition_each_are_warned_of() -> None:
    items = [clip(k, ("clean",) if k // 12 else ("adversarial",), group=f"g{k // 12}") for k in range(24)]
    assert one(found(study(items)), "every group of listeners hears one condition only") == "warning"


def test_an_x_that_follows_from_the_word_is_found() -> None:
    # words come round as often as the four combinations of A, B and X, for listeners who are alone in their
    # groups
    items = [clip(k, group=f"g{k // 16}") for k in range(16 * 10)]
    findings = found(study(items, "abx", listeners=10))
    assert (
        one(
            findings,
            "the correct answer can be guessed from the word (`answer`): the best guess is correct in 100 %",
        )
        == "error"
    )


def test_conditions_that_are_the_same_samples_are_warned_of() -> None:
    plan = study([clip(k) for k in range(4)])
    heard = {
        file: ClipStats(16000, 1, 1.0, -26.0, 0, file.removeprefix("adversarial").removeprefix("clean"))
        for file in sounds(plan)
    }
    texts = [f.text for f in confounds(plan, heard)]
    assert any(
        "4 items (clip 0, clip 1, clip 2 and 1 more): two conditions have the same samples" in text
        for text in texts
    )


def test_guessing_is_as_good_as_counted_by_hand() -> None:
    # three clips of "a": 3 clean 1 adversarial trial each; one of "b": 0 and 6. a -> clean (9 of 9), b ->
    # adversarial (6 of 9)
    guessed = from_items(["a", "a", "a", "b"], np.array([[3, 1], [3, 1], [3, 1], [0, 6]], float))
    assert guessed.accuracy == pytest.approx((9 / 9 + 6 / 9) / 2)
    # b is dealt to the clip of 6 in one of four draws; else "a" has 6 and 8, and "b" 3 and 1
    assert guessed.chance == pytest.approx(0.25 * guessed.accuracy + 0.75 * (8 / 9 + 3 / 9) / 2, abs=0.02)
    assert guessed.p == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("template", sorted(templates()))
def test_no_template_raises_a_false_alarm_with_the_embedded_speech(template: str, tmp_path: Any) -> None:
    findings = check_study(new_study(tmp_path / "s", template, seed=0))
    assert [f for f in findings if f.level == "error"] == []
    alarming = ("can be guessed", "more than once", "clip", "the same samples")
    assert [f for f in findings if f.level == "warning" and any(words in f.text for words in alarming)] == []


def test_a_tied_study_is_refused_by_check(tmp_path: Any) -> None:
    items = [clip(k, ("clean",) if k % 2 else ("adversarial",)) for k in range(16)]
    for item in items:
        for file in item["files"].values():
            write_clip(tmp_path / file, 0.1 * torch.randn(4000).clamp(-3, 3), 16000)
    content = {"name": "s", "listeners": 4, "items": items, "steps": ["consent", "level", "naturalness"]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    findings: list[Finding] = check_study(tmp_path / "study.yaml")
    assert any(f.level == "error" and "from the word" in f.text for f in findings)
