"""Which word stands against which: alignments, beside jiwer's and sclite's."""

import itertools
import random

import jiwer
import pytest

from limen.core.edits import WEIGHTS, Step, alignment, edits

NAMES = {"equal": "correct", "substitute": "substitution", "delete": "deletion", "insert": "insertion"}


def test_an_alignment_names_every_error_in_order():
    found = alignment(["turn", "the", "light", "off"], ["turn", "a", "light", "off", "now"])
    assert found == [
        Step("correct", 0, 0),
        Step("substitution", 1, 1),
        Step("correct", 2, 2),
        Step("correct", 3, 3),
        Step("insertion", None, 4),
    ]
    assert alignment(["one", "two"], ["two"]) == [Step("deletion", 0, None), Step("correct", 1, 0)]


def test_nothing_against_nothing_has_no_steps():
    assert alignment([], []) == []
    assert alignment(["a"], []) == [Step("deletion", 0, None)]
    assert alignment([], ["a"]) == [Step("insertion", None, 0)]


@pytest.mark.parametrize("costs", ["unit", "sclite"])
def test_the_steps_visit_every_token_once_and_match_only_what_is_equal(costs):
    short = [list(p) for n in range(5) for p in itertools.product("ab", repeat=n)]
    for reference, hypothesis in itertools.product(short, short):
        steps = alignment(reference, hypothesis, costs)
        assert [s.reference for s in steps if s.reference is not None] == list(range(len(reference)))
        assert [s.hypothesis for s in steps if s.hypothesis is not None] == list(range(len(hypothesis)))
        for s in steps:
            if s.operation in ("correct", "substitution"):
                assert (reference[s.reference] == hypothesis[s.hypothesis]) == (s.operation == "correct")


@pytest.mark.parametrize(
    ("reference", "hypothesis", "costs", "operations"),
    [
        # from the end backwards: a match or substitution is taken before an insertion, an insertion before a
        # deletion
        ("a b", "c", "unit", ["deletion", "substitution"]),
        ("b", "c d", "unit", ["insertion", "substitution"]),
        ("c f c f f f e a d b", "a b a c d b d e a e", "sclite", None),
    ],
)
def test_ties_are_broken_as_edits_breaks_them(reference, hypothesis, costs, operations):
    found = [s.operation for s in alignment(reference.split(), hypothesis.split(), costs)]
    if operations:
        assert found == operations
    counts = edits(reference.split(), hypothesis.split(), costs)
    assert (
        found.count("correct"),
        found.count("substitution"),
        found.count("deletion"),
        found.count("insertion"),
    ) == (
        counts.correct,
        counts.substitutions,
        counts.deletions,
        counts.insertions,
    )


def test_an_alignment_costs_as_much_as_that_of_jiwer():
    draw = random.Random(0)
    for _ in range(200):
        a, b = (draw.choices(["one", "two", "three", "four"], k=draw.randint(1, 9)) for _ in range(2))
        (chunks,) = jiwer.process_words(" ".join(a), " ".join(b)).alignments
        theirs = [
            NAMES[c.type]
            for c in chunks
            for _ in range(max(c.ref_end_idx - c.ref_start_idx, c.hyp_end_idx - c.hyp_start_idx))
        ]
        mine = [s.operation for s in alignment(a, b)]
        assert sum(o != "correct" for o in mine) == sum(o != "correct" for o in theirs)


def test_the_weights_decide_between_two_substitutions_and_a_detour():
    # unit costs keep two substitutions; with 4 against 3 + 3 a shift that matches a word is cheaper
    assert WEIGHTS["sclite"] == (4, 3, 3)
    assert [s.operation for s in alignment(["a", "b"], ["b", "c"], "unit")] == [
        "substitution",
        "substitution",
    ]
    assert [s.operation for s in alignment(["a", "b"], ["b", "c"], "sclite")] == [
        "deletion",
        "correct",
        "insertion",
    ]
