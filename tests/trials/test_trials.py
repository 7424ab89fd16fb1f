"""What holds for every trial type, and the counts and balances of each."""

import json
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations

import pytest

from limen.core.components import names, parse
from limen.core.errors import UserError
from limen.listening.study import Item
from limen.trials.base.screen import Effect, Listener, latin_row
from limen.trials.base.trial import trial_type

WORDS = ["yes", "no", "up", "down"]
ITEMS = [
    Item(
        id=f"SECRETITEM_{k}",
        files={f"SECRETCONDITION_{c}": f"SECRETFILE_{k}_{c}.wav" for c in ("clean", "adv")},
        answer=WORDS[k % 4],
        factors={"loudness": "SECRETFACTOR"},
    )
    for k in range(12)
]
SOUNDING = [name for name in names("trials") if trial_type(name).role == "trial"]


def made(name, number=0, items=ITEMS, **options):
    component, parsed = parse("trials", {"name": name, **trial_type(name).example, **options})
    return component.function(Listener(number, items, random.Random(f"{name} {number}")), parsed)


@pytest.mark.parametrize("name", names("trials"))
def test_the_page_learns_neither_file_nor_condition_nor_item_nor_the_right_answer(name):
    for screen in made(name):
        public = json.dumps(screen.public())
        assert "SECRET" not in public
        assert "truth" not in public
        assert set(screen.public()) == {
            "kind",
            "role",
            "title",
            "text",
            "sounds",
            "widgets",
            "plays",
            "switch",
            "hear_all",
            "decline",
        }
        assert all(set(sound) == {"label", "rated"} for sound in screen.public()["sounds"])
        # whatever the right answer is, the page is the same
        assert replace(screen, truth={"answer": "another"}, facts={}, track=None).public() == screen.public()


@pytest.mark.parametrize("name", names("trials"))
def test_screens_made_again_are_the_same_and_facts_are_plain_json(name):
    first = made(name)
    assert first
    assert first == made(name)
    for screen in first:
        assert screen.kind in (name, "pause")
        assert json.loads(json.dumps(screen.facts)) == screen.facts
        assert {w.name for w in screen.widgets} >= set(screen.truth)
        assert len({s.label for s in screen.sounds}) == len(screen.sounds)


@pytest.mark.parametrize("name", SOUNDING)
def test_listeners_hear_different_orders(name):
    orders = {
        json.dumps([[s.facts["item"], s.facts["sounds"]] for s in made(name, number)]) for number in range(8)
    }
    assert len(orders) == 8


@pytest.mark.parametrize("name", SOUNDING)
def test_teaching_comes_first_with_feedback_and_breaks_stand_between(name):
    plain = made(name)
    screens = made(name, teaching=2, pause_every=3)
    assert [s.role for s in screens[:2]] == ["teaching", "teaching"]
    assert [s.feedback for s in screens] == [True, True] + [False] * (len(screens) - 2)
    rest = screens[2:]
    assert sum(s.role == "trial" for s in rest) == sum(s.role == "trial" for s in plain)
    at = [k for k, s in enumerate(rest) if s.kind == "pause"]
    assert at == list(range(3, len(rest), 4))
    assert rest[-1].kind == name


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 12])
def test_a_latin_square_has_every_number_in_every_place_and_after_every_other_equally_often(n):
    rows = [latin_row(n, row) for row in range(n if n % 2 == 0 else 2 * n)]
    assert all(sorted(row) == list(range(n)) for row in rows)
    places = Counter((place, v) for row in rows for place, v in enumerate(row))
    assert set(places.values()) == {len(rows) // n}
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    assert len(pairs) == n * (n - 1)
    assert n == 1 or set(pairs.values()) == {len(rows) // n}
    assert latin_row(n, len(rows)) == rows[0]


def test_a_latin_order_puts_every_item_once_in_every_place_over_as_many_listeners():
    orders = [
        [
            s.facts["item"]
            for s in made("transcription", number, order="latin", conditions=["SECRETCONDITION_adv"])
        ]
        for number in range(12)
    ]
    places = Counter((place, item) for order in orders for place, item in enumerate(order))
    assert len(places) == 144
    assert set(places.values()) == {1}


def test_the_order_of_the_file_is_kept_when_asked_for():
    assert [s.facts["item"] for s in made("abx", order="file")] == [i.id for i in ITEMS]


# ---- ABX


def test_x_is_each_of_the_four_arrangements_equally_often_over_items_and_listeners():
    seen = Counter()
    for number in range(8):
        screens = made("abx", number)
        assert Counter(s.truth["answer"] for s in screens) == {"A": 6, "B": 6}
        for s in screens:
            sounds = {sound.label: sound for sound in s.sounds}
            assert sounds["X"].stimulus == sounds[s.truth["answer"]].stimulus
            assert sounds["A"].stimulus != sounds["B"].stimulus
            seen[s.facts["item"], sounds["A"].condition, s.truth["answer"]] += 1
    assert len(seen) == 12 * 4
    assert set(seen.values()) == {2}


def test_a_catch_trial_has_three_equal_clips_no_right_answer_and_looks_like_any_other():
    *trials, catch = made("abx", catch=1)
    assert [s.role for s in trials] == ["trial"] * 12
    assert catch.role == "catch"
    assert len({s.stimulus for s in catch.sounds}) == 1
    assert catch.correct({"answer": "A", "confidence": "high"}) is None
    assert catch.public() == trials[0].public()
    anywhere = {
        [s.role for s in made("abx", number, catch=1, catch_place="random")].index("catch")
        for number in range(20)
    }
    assert len(anywhere) > 5


def test_confidence_is_a_second_question_that_can_be_left_out():
    assert [w.name for w in made("abx")[0].widgets] == ["answer", "confidence"]
    assert [c.value for c in made("abx")[0].widgets[1].choices] == ["low", "medium", "high"]
    assert [w.name for w in made("abx", confidence=[])[0].widgets] == ["answer"]


def test_sounds_that_are_compared_can_be_switched_unless_the_study_says_no():
    switching = {name for name in SOUNDING if made(name)[0].switch}
    assert switching == {name for name in SOUNDING if sum(s.rated for s in made(name)[0].sounds) > 1} - {
        name for name in SOUNDING if trial_type(name).tracks_thresholds
    }
    assert not made("abx", switch=False)[0].switch
    assert not made("preference", switch=False)[0].switch


@pytest.mark.parametrize(
    ("switch", "plays", "over"),
    [
        (False, [2, 2, 2], 0),
        (False, [3, 0, 1], 1),
        (False, [4, 3, 0], 3),
        (True, [6, 0, 0], 0),
        (True, [3, 2, 1], 0),
        (True, [3, 3, 1], 1),
    ],
)
def test_plays_of_sounds_that_can_be_switched_belong_to_all_of_them_together(switch, plays, over):
    assert made("abx", plays=2, switch=switch)[0].over_limit(plays) == over
    assert made("abx", switch=switch)[0].over_limit(plays) == 0


def test_fewer_trials_than_items_go_on_where_the_last_listener_ended():
    heard = Counter(s.facts["item"] for number in range(6) for s in made("abx", number, trials=4))
    assert set(heard.values()) == {2}
    assert len(heard) == 12


def test_sentinel_items_are_mixed_in_and_left_out_of_the_trials():
    marked = [
        i.model_copy(update={"factors": {"part": "sentinel"}}) if k < 3 else i for k, i in enumerate(ITEMS)
    ]
    screens = made("abx", items=marked, sentinels={"part": "sentinel"})
    assert {s.facts["item"] for s in screens if s.role == "sentinel"} == {i.id for i in marked[:3]}
    assert {s.facts["item"] for s in screens if s.role == "trial"} == {i.id for i in marked[3:]}
    assert {s.public()["role"] for s in screens} == {"trial"}
    assert all(
        s.correct(s.truth) and s.correct({"answer": "A"}) == (s.truth["answer"] == "A") for s in screens
    )


def test_a_study_without_fitting_items_is_told_what_is_missing():
    with pytest.raises(
        UserError,
        match=r"abx: no item of this study can be used\. It needs files of the conditions clean, other",
    ):
        made("abx", conditions=["clean", "other"])
    with pytest.raises(UserError, match="and the factors"):
        made("naturalness", where={"part": 1})


def test_factors_of_a_table_are_text_and_still_match_numbers():
    items = [Item(id=str(k), files={"a": "x.wav"}, factors={"part": str(k % 2)}) for k in range(4)]
    assert {s.facts["item"] for s in made("naturalness", items=items, where={"part": 1})} == {"1", "3"}


# ---- one clip at a time


def test_every_item_comes_in_every_condition_or_in_one_of_them_in_turn():
    assert Counter(s.facts["condition"] for s in made("naturalness")) == {
        "SECRETCONDITION_clean": 12,
        "SECRETCONDITION_adv": 12,
    }
    both = Counter()
    for number in range(2):
        screens = made("naturalness", number, each="one")
        assert Counter(s.facts["condition"] for s in screens) == {
            "SECRETCONDITION_clean": 6,
            "SECRETCONDITION_adv": 6,
        }
        both.update((s.facts["item"], s.facts["condition"]) for s in screens)
    assert len(both) == 24


def test_naturalness_has_five_anchors_and_asks_for_the_word_on_the_same_screen():
    screen = made("naturalness", identify=True)[0]
    word, scale = screen.widgets
    assert [c.value for c in word.choices] == WORDS
    assert word.other == "Other"
    assert [c.value for c in scale.choices] == ["1", "2", "3", "4", "5"]
    assert scale.choices[0].label.startswith("1: Clearly perturbed")
    assert screen.correct({"word": screen.truth["word"], "naturalness": "1"}) is True
    assert screen.correct({"word": "other:maybe", "naturalness": "1"}) is False
    assert made("naturalness")[0].truth == {}


def test_identification_needs_something_to_choose_from():
    screens = made("identification", choices=["left", "right"], other="")
    assert {c.value for c in screens[0].widgets[0].choices} == {"left", "right"}
    with pytest.raises(UserError, match="nothing to choose from"):
        made("identification", items=[Item(id="a", files={"c": "a.wav"})])


def test_a_transcription_keeps_what_was_said():
    screens = made("transcription")
    answers = {i.id: i.answer for i in ITEMS}
    assert all(s.facts["spoken"] == answers[s.facts["item"]] and s.truth == {} for s in screens)


# ---- several clips


def test_preference_swaps_its_sides_over_listeners_and_asks_every_pair():
    first = {(s.facts["item"], s.facts["a"]) for number in range(2) for s in made("preference", number)}
    assert len(first) == 24
    three = [Item(id="a", files={"ref": "r.wav", "x": "x.wav", "y": "y.wav", "z": "z.wav"})]
    screens = made("preference", items=three, reference="ref", indifferent="no preference")
    assert {s.facts["condition"] for s in screens} == {"x / y", "x / z", "y / z"}
    assert [s.label for s in screens[0].sounds] == ["Reference", "A", "B"]
    assert [c.value for c in screens[0].widgets[0].choices] == ["A", "B", "none"]


def test_mushra_hides_the_reference_and_its_anchors_among_the_conditions():
    item = Item(id="a", files={"ref": "r.wav", "x": "x.wav", "y": "y.wav"})
    (screen,) = made("mushra", items=[item])
    reference, *hidden = screen.sounds
    assert (reference.label, reference.rated, reference.condition) == ("Reference", False, "ref")
    assert [s.label for s in hidden] == list("ABCDE")
    assert all(s.rated for s in hidden)
    by = {s.condition: s.stimulus for s in hidden}
    assert set(by) == {"ref", "x", "y", "low-pass 3.5 kHz", "low-pass 7 kHz"}
    assert by["ref"] == reference.stimulus
    assert by["low-pass 3.5 kHz"].effects == (Effect({"name": "low_pass", "cutoff_hz": 3500.0}, 100.0),)
    assert by["low-pass 7 kHz"].file == "r.wav"
    (widget,) = screen.widgets
    assert (widget.kind, widget.each_sound, widget.low, widget.high, len(widget.anchors)) == (
        "slide",
        True,
        0,
        100,
        5,
    )


def test_no_sound_of_mushra_has_the_letter_of_the_loop_or_of_the_reference():
    item = Item(id="a", files={f"c{k}": "x.wav" for k in range(30)})
    (screen,) = made("mushra", items=[item])
    labels = [s.label for s in screen.sounds[1:]]
    assert len(set(labels)) == 32
    assert labels[:24] == list("ABCDEFGHIJKMNOPQSTUVWXYZ")


# ---- same or different

AXES = ["noise", "mp3", {"name": "adversarial", "condition": "SECRETCONDITION_adv"}]


def compared(number=0, **options):
    return made("same_different", number, **({"axes": AXES, "sentinels": 1, "same": 1} | options))


SEED_002 = {
    "axes": [["noise", {"name": "noise", "colour": "pink"}], ["drr", "rt60"], ["mu_law", "mp3"]],
    "combine": 2,
    "tracks": 3,
    "adaptive": {"max_trials": 8},
    "sentinels": 2,
    "teaching": 2,
    "same": 0,
    "before": ["noise", "drr"],
}


def test_the_task_of_manocha_et_al_has_thirty_comparisons_in_three_tracks_with_six_sentinels():
    screens = compared(**SEED_002)
    assert Counter(s.role for s in screens) == {"teaching": 2, "trial": 24, "sentinel": 6}
    assert Counter(s.track for s in screens if s.role == "trial") == {
        "track 0": 8,
        "track 1": 8,
        "track 2": 8,
    }
    for s in screens:
        by = {sound.condition: sound.stimulus for sound in s.sounds}
        assert by["test"].file == by["reference"].file
        assert by["test"].effects[: len(by["reference"].effects)] == by["reference"].effects
        more = by["test"].effects[len(by["reference"].effects) :]
        if s.role == "trial":
            assert len(by["reference"].effects) == 2
            assert [e.strength for e in more] == [None, None]
            assert s.truth == {}
            assert s.facts["adaptive"]["max_trials"] == 8
        elif s.role == "sentinel":
            assert [e.strength for e in more] == [100.0]
            assert s.truth == {"answer": "different"}
    tracks = {s.track: s.facts["axis"] for s in screens if s.track}
    assert all(" + " in axis for axis in tracks.values())
    assert len({json.dumps(s.facts["before"]) for s in screens if s.track}) == 3


def test_axes_of_a_combination_come_in_both_orders_and_one_of_each_category():
    seen = {s.facts["axis"] for number in range(100) for s in compared(number, **SEED_002) if s.track}
    categories = [["noise", "noise colour=pink"], ["drr", "rt60"], ["mu_law", "mp3"]]
    assert seen == {f"{a} + {b}" for one, other in permutations(categories, 2) for a in one for b in other}


def test_every_axis_is_measured_by_every_listener_and_meets_all_items_over_listeners():
    met = Counter()
    for number in range(48):
        tracks = {s.track: (s.facts["axis"], s.facts["item"]) for s in compared(number) if s.track}
        assert sorted(axis for axis, _ in tracks.values()) == [
            "adversarial condition=SECRETCONDITION_adv",
            "mp3",
            "noise",
        ]
        met.update(tracks.values())
    assert len(met) == 3 * 12
    assert {sum(n for (_, item), n in met.items() if item == i.id) for i in ITEMS} == {12}


def test_equal_pairs_are_equal_and_the_places_of_reference_and_test_are_random():
    screens = compared(same=8)
    equal = [s for s in screens if s.truth.get("answer") == "same"]
    assert len(equal) == 24
    assert all(
        len({x.stimulus for x in s.sounds}) == 1 and s.facts["strength"] == 0 and s.track is None
        for s in equal
    )
    assert {s.sounds[0].condition for s in equal} == {"reference", "test"}


def test_the_adversarial_axis_takes_its_files_from_the_item():
    screens = [s for s in compared() if s.track and s.facts["axis"].startswith("adversarial")]
    item = {i.id: i for i in ITEMS}[screens[0].facts["item"]]
    (effect,) = [e for x in screens[0].sounds for e in x.stimulus.effects]
    assert effect.axis["file"] == item.files["SECRETCONDITION_adv"]
    assert effect.axis["clean_file"] == item.files["SECRETCONDITION_clean"]
    with pytest.raises(UserError, match="needs a file of the condition 'missing'"):
        compared(axes=[{"name": "adversarial", "condition": "missing"}])


def test_tracks_can_follow_one_another():
    tracks = [s.track for s in compared(interleave=False) if s.track]
    assert tracks == sorted(tracks)
    mixed = [s.track for s in compared() if s.track]
    assert mixed != sorted(mixed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": []}, "at least 1 item"),
        ({"axes": ["nois"]}, 'no axis "nois"'),
        ({"before_strength": [60, 20]}, "the lower first"),
        ({"adaptive": {"prior": {"highest": 200}}}, "strengths go from 0 to 100"),
        ({"combine": 4}, "only 3 entries"),
    ],
)
def test_impossible_same_different_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        compared(**options)


# ---- pages and checks


def test_consent_has_no_other_answer_than_to_agree():
    (screen,) = made("consent")
    (widget,) = screen.widgets
    assert [c.value for c in widget.choices] == ["agree"]
    assert widget.required
    assert not widget.other


def test_only_consent_can_be_declined():
    declined = {name for name in names("trials") for screen in made(name) if screen.decline}
    assert declined == {name for name in names("trials") if trial_type(name).asks_consent}
    assert made("consent")[0].decline == "I do not agree"
    assert made("consent", decline="No")[0].public()["decline"] == "No"


def test_the_headphone_check_plays_every_order_of_three_tones_once():
    screens = made("headphones")
    orders = {tuple(sound.condition for sound in s.sounds) for s in screens}
    assert len(screens) == len(orders) == 6
    for s in screens:
        assert s.role == "check"
        assert s.sounds[int(s.truth["answer"]) - 1].stimulus.file == "limen:tone:quiet"
    assert [s.truth for s in screens] != [s.truth for s in made("headphones", 1)]


def test_the_attention_check_has_one_right_word_among_others_in_random_order():
    (screen,) = made("attention")
    assert screen.role == "check"
    assert screen.correct({"answer": "river"}) is True
    assert screen.correct({"answer": "forest"}) is False
    assert len({tuple(c.value for c in made("attention", n)[0].widgets[0].choices) for n in range(20)}) > 3
    with pytest.raises(UserError, match="not the word itself"):
        made("attention", others=["river"])


@pytest.mark.parametrize("name", ["demographics", "comments"])
def test_what_listeners_tell_about_themselves_is_personal_and_can_be_passed_over(name):
    (screen,) = made(name)
    assert screen.personal
    assert not any(w.required for w in screen.widgets)


@pytest.mark.parametrize("axes", [[[]], ["noise", []]])
def test_a_category_of_axes_without_an_axis_is_refused(axes):
    with pytest.raises(UserError, match="axes"):
        compared(axes=axes)


def test_more_trials_than_a_listener_can_go_through_are_refused_before_they_are_made():
    with pytest.raises(UserError, match="trials: input should be less than or equal to 1000"):
        made("abx", trials=1001)
    with pytest.raises(UserError, match="a listener would see 1,002,000 screens"):
        compared(tracks=1000, adaptive={"max_trials": 1000}, sentinels=1, same=1)
