"""What a page may send for a screen, and what is refused with a sentence."""

import json
import math

import pytest

from limen.core.errors import UserError
from limen.listening.server.answers import checked, storable
from limen.trials.base.screen import Choice, Screen, Sound, Stimulus, Widget, choices

SOUNDS = tuple(
    Sound(label, Stimulus("x.wav"), rated=label != "Reference") for label in ("Reference", "A", "B")
)
ABX = Screen(
    "abx",
    "trial",
    widgets=(
        Widget("answer", "choose", "?", choices("A", "B")),
        Widget("sure", "choose", "?", choices("low", "high")),
    ),
)


def one(widget: Widget) -> Screen:
    return Screen("k", "trial", sounds=SOUNDS, widgets=(widget,))


def test_an_answer_to_every_question_passes_unchanged():
    assert checked(ABX, {"sure": "low", "answer": "B"}) == {"answer": "B", "sure": "low"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"answer": "A"}, "sure: an answer is needed"),
        ({"answer": "C", "sure": "low"}, "answer: expected one of A, B, got 'C'"),
        ({"answer": ["A"], "sure": "low"}, "expected one of A, B"),
        ({"answer": None, "sure": "low"}, "answer: an answer is needed"),
        ({"answer": "other:A", "sure": "low"}, "expected one of A, B"),
        ({"answer": "A", "sure": "low", "truth": "A"}, "no question 'truth'"),
        (["A"], "got a list"),
        (None, "got nothing"),
        ("A", "got text"),
    ],
)
def test_a_wrong_answer_is_refused_with_a_sentence(answer, message):
    with pytest.raises(UserError, match=message):
        checked(ABX, answer)


def test_a_free_answer_needs_words_and_a_widget_that_allows_it():
    free = one(Widget("word", "choose", "?", choices("yes"), other="Other", longest=5))
    assert checked(free, {"word": "other: maybe "}) == {"word": "other:maybe"}
    assert checked(free, {"word": "yes"}) == {"word": "yes"}
    for wrong in ("other:", "other:  ", "other:longer", "Other"):
        with pytest.raises(UserError):
            checked(free, {"word": wrong})


def test_a_slide_takes_numbers_of_its_grid_alone():
    slide = one(Widget("r", "slide", "?", low=-1, high=1, step=0.1))
    assert checked(slide, {"r": 0.30000000000000004}) == {"r": 0.3}
    assert checked(slide, {"r": -1}) == {"r": -1}
    assert checked(slide, {"r": 1.0}) == {"r": 1}
    for wrong in (0.05, 1.1, -2, True, "0", math.nan, math.inf, -math.inf, 10**400, [0], {}):
        with pytest.raises(UserError):
            checked(slide, {"r": wrong})


def test_every_rated_sound_needs_its_own_place_and_the_open_reference_none():
    mushra = one(Widget("rating", "slide", "?", each_sound=True))
    assert checked(mushra, {"rating": {"B": 3, "A": 100}}) == {"rating": {"A": 100, "B": 3}}
    for wrong in ({"A": 1}, {"A": 1, "B": 2, "Reference": 3}, {"A": 1, "B": None}, [1, 2], 5, None):
        with pytest.raises(UserError):
            checked(mushra, {"rating": wrong})


def test_what_need_not_be_answered_is_left_out():
    page = Screen(
        "p",
        "page",
        widgets=(
            Widget("age", "type", "?", required=False),
            Widget("g", "choose", "?", choices("x"), required=False),
        ),
    )
    assert checked(page, {}) == {}
    assert checked(page, {"age": "", "g": None}) == {}
    assert checked(page, {"age": "33"}) == {"age": "33"}


def test_text_has_a_longest_length_and_no_characters_that_cannot_be_stored():
    text = one(Widget("t", "type", "?", longest=10))
    assert checked(text, {"t": "漢字🎧<b>"}) == {"t": "漢字🎧<b>"}
    for wrong in ("x" * 11, "a\0b", "\ud800", json.loads('"\\udfff"'), 5, ["t"]):
        with pytest.raises(UserError):
            checked(text, {"t": wrong})


def test_choices_are_told_by_value_not_by_label():
    screen = one(Widget("n", "choose", "?", (Choice("1", "1: clearly perturbed"),)))
    assert checked(screen, {"n": "1"}) == {"n": "1"}
    with pytest.raises(UserError):
        checked(screen, {"n": "1: clearly perturbed"})


@pytest.mark.parametrize(
    "value",
    ["\0", {"k\0": 1}, ["\udc00"], math.nan, 2**60, 1e300, [[[[[[[1]]]]]]], {"a": object()}, 10**4000],
)
def test_what_a_database_would_not_give_back_is_refused(value):
    with pytest.raises(UserError):
        storable(value)


def test_plain_json_is_storable():
    storable({"a": [1, -2.5, None, True, "é🎧", {"b": {}}]})
