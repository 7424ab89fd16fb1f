"""Who hears what: seed 000's design, balance over groups, and which screen comes next."""

from collections import Counter
from dataclasses import replace

import pytest

from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.listening.design import StoredAnswer, history, least_filled, next_screen, screens
from limen.listening.study import Item, Study
from limen.perception import adaptive

WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "silence", "unknown"]
LEVELS = ["low", "medium", "high"]


def seed_000() -> Study:
    """Nine experiments of one loudness level: 12 clips in one condition each, and 6 pairs."""
    items = []
    for e in range(9):
        about = {"group": f"experiment {e + 1}", "factors": {"loudness": LEVELS[e // 3]}}
        for k, word in enumerate(WORDS):
            condition = ("clean", "adversarial")[(k + e) % 2]
            factors = {**about["factors"], "part": 1}
            items.append(
                Item(
                    id=f"{e}-{word}",
                    files={condition: f"{e}-{word}.wav"},
                    answer=word,
                    group=about["group"],
                    factors=factors,
                )
            )
        for k in range(6):
            files = {c: f"{e}-{k}-{c}.wav" for c in ("clean", "adversarial")}
            items.append(
                Item(
                    id=f"{e}-pair-{k}",
                    files=files,
                    group=about["group"],
                    factors={**about["factors"], "part": 2},
                )
            )
    steps = [
        "consent",
        "level",
        {"name": "naturalness", "where": {"part": 1}, "identify": True, "plays": 2},
        {"name": "abx", "where": {"part": 2}, "conditions": ["clean", "adversarial"], "plays": 2, "catch": 1},
        "demographics",
        "comments",
    ]
    return parse_options(
        Study,
        {"name": "seed000", "listeners": 36, "items": items, "steps": steps, "power_dbfs": None},
        "test",
    )


def jnd(**options) -> Study:
    items = [Item(id=str(k), files={"clean": f"{k}.wav"}) for k in range(3)]
    step = {
        "name": "same_different",
        "axes": ["noise", "mp3"],
        "adaptive": {"max_trials": 6, "min_trials": 2},
        **options,
    }
    return parse_options(
        Study, {"name": "jnd", "items": items, "steps": ["consent", step, "comments"]}, "test"
    )


def test_seed_000_has_twelve_clips_six_of_them_clean_six_abx_trials_and_a_catch_trial_for_all_36_listeners():
    study = seed_000()
    for group in study.cells:
        for number in range(4):
            planned = screens(study, group, number)
            clips = [s for s in planned if s.kind == "naturalness"]
            assert Counter(s.facts["condition"] for s in clips) == {"clean": 6, "adversarial": 6}
            assert {s.truth["word"] for s in clips} == set(WORDS)
            abx = [s for s in planned if s.kind == "abx"]
            assert [s.role for s in abx] == ["trial"] * 6 + ["catch"]
            assert all(s.plays == 2 for s in clips + abx)
            assert {s.facts["loudness"] for s in clips + abx} == {LEVELS[study.cells.index(group) // 3]}
    right = Counter(
        s.truth["answer"]
        for g in study.cells
        for n in range(4)
        for s in screens(study, g, n)
        if s.kind == "abx" and s.truth
    )
    assert right == {"A": 108, "B": 108}


def test_every_screen_says_where_it_belongs():
    study = seed_000()
    planned = screens(study, "experiment 2", 1)
    assert [s.step for s in planned] == sorted(s.step for s in planned)
    assert {s.kind for s in planned if s.step == 3} == {"abx"}
    for s in planned:
        assert s.facts["group"] == "experiment 2"
        assert {"item", "condition"} <= set(s.facts)


def test_screens_are_the_same_when_made_again_and_depend_on_seed_group_and_number():
    study = seed_000()
    first = screens(study, "experiment 1", 0)
    assert first == screens(seed_000(), "experiment 1", 0)
    order = [s.facts["item"] for s in first]
    assert order != [s.facts["item"] for s in screens(study, "experiment 1", 1)]
    assert order != [
        s.facts["item"] for s in screens(study.model_copy(update={"seed": 1}), "experiment 1", 0)
    ]


def test_new_listeners_fill_the_groups_evenly():
    study = seed_000()
    counts: Counter[str] = Counter()
    for _ in range(36):
        counts[least_filled(study, counts)] += 1
    assert counts == {group: 4 for group in study.cells}
    assert least_filled(study, {g: 3 - (g == "experiment 7") for g in study.cells}) == "experiment 7"
    assert least_filled(jnd(), {}) == ""


def walk(study, listens, seed=5):
    """Answer everything; `listens(screen)` gives the answer. All answers and the strengths played."""
    planned = screens(study, "", 0)
    answers: list[StoredAnswer] = []
    shown = []
    while (step := next_screen(study, planned, answers, seed)) is not None:
        position, screen = step
        shown.append(screen)
        answers.append(StoredAnswer(position, listens(screen), screen.facts))
    return planned, answers, shown


def hears_above(threshold):
    return lambda s: {"answer": "different" if s.facts.get("strength", 0) >= threshold else "same"}


def test_without_tracks_screens_come_one_after_another_to_the_end():
    study = seed_000()
    planned = screens(study, "experiment 1", 0)
    answers = []
    for position, screen in enumerate(planned):
        assert next_screen(study, planned, answers, 0) == (position, screen)
        answers.append(StoredAnswer(position, {}, screen.facts))
    assert next_screen(study, planned, answers, 0) is None


def test_a_track_asks_the_adaptive_method_with_its_own_answers_only():
    study = jnd()
    planned, answers, shown = walk(study, hears_above(30))
    assert len(answers) == 1 + 12 + 1
    for position, screen in [(a.position, s) for a, s in zip(answers, shown, strict=True) if s.track]:
        earlier = [a for a in answers if a.position < position]
        options = adaptive.Options(max_trials=6, min_trials=2)
        # psi draws nothing, so the seed does not matter here
        assert screen.facts["strength"] == adaptive.next_level(
            options, history(planned, earlier, screen.track), 0
        )
        effects = [e for sound in screen.sounds for e in sound.stimulus.effects]
        assert [e.strength for e in effects] == [screen.facts["strength"]]


def test_the_answers_lead_to_the_threshold():
    planned, answers, _ = walk(jnd(adaptive={"max_trials": 20}), hears_above(37))
    for track in {s.track for s in planned if s.track}:
        found = adaptive.posterior(adaptive.Options(), history(planned, answers, track))
        assert found.threshold.low - 3 <= 37 <= found.threshold.high + 3
        assert abs(found.threshold.mean - 37) < 6


def test_a_track_that_has_stopped_is_passed_over():
    planned, answers, shown = walk(
        jnd(adaptive={"max_trials": 40, "min_trials": 4, "stop_sd": 12.0}), hears_above(50)
    )
    asked = Counter(s.track for s in shown if s.track)
    assert set(asked) == {s.track for s in planned if s.track}
    assert all(4 <= n < 40 for n in asked.values())
    assert shown[-1].kind == "comments"
    assert [a.position for a in answers] == sorted(a.position for a in answers)


def test_resuming_at_any_point_gives_the_same_screen_again():
    study = jnd(adaptive={"method": "random", "max_trials": 6, "min_trials": 2})
    _, answers, shown = walk(study, hears_above(30))
    for n in range(len(answers)):
        assert next_screen(study, screens(study, "", 0), answers[:n], 5) == (answers[n].position, shown[n])
    other = [s.facts.get("strength") for s in walk(study, hears_above(30), seed=6)[2]]
    assert other != [s.facts.get("strength") for s in shown]


def test_two_same_different_steps_are_separate_tracks():
    study = jnd()
    twice = study.model_copy(update={"steps": [*study.steps, study.steps[1]]})
    assert len({s.track for s in screens(twice, "", 0) if s.track}) == 4


def test_an_answer_with_no_track_is_in_no_history():
    planned = [replace(s, track=None) for s in screens(jnd(), "", 0)]
    assert history(planned, [StoredAnswer(1, {"answer": "same"}, {"strength": 3.0})], "step 1 track 0") == []


def test_a_group_without_items_is_told_so():
    study = parse_options(
        Study,
        {
            "name": "x",
            "groups": ["a", "b"],
            "steps": ["abx"],
            "items": [Item(id="1", files={"c": "1.wav", "d": "2.wav"}, group="a")],
        },
        "test",
    )
    assert screens(study, "a", 0)
    with pytest.raises(UserError, match="no item of this study can be used"):
        screens(study, "b", 0)


def test_more_screens_than_a_listener_can_go_through_are_refused():
    item = Item(id="0", files={"clean": "0.wav", "adversarial": "1.wav"})
    study = lambda *more: parse_options(
        Study,
        {"name": "long", "items": [item], "steps": [*[{"name": "abx", "trials": 1000}] * 2, *more]},
        "test",
    )
    assert len(screens(study(), "", 0)) == 2000
    with pytest.raises(UserError, match="a listener would see 2,001 screens; at most 2,000"):
        screens(study("comments"), "", 0)
