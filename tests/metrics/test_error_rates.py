"""Edit distance, WER and CER, against jiwer and counts of NIST sclite."""

import itertools
import random

import jiwer
import pytest
import torch

from limen.core.edits import WEIGHTS, Edits, edits
from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, columns, measure
from limen.metrics.base.summary import summarise

# reference, hypothesis -> correct, substitutions, deletions, insertions, as sclite 2.10 counts them
SCLITE = [
    ("c f c f f f e a d b", "a b a c d b d e a e", (3, 6, 1, 1)),
    ("a f b d", "a f b e", (3, 1, 0, 0)),
    ("b b a a b b b b", "b b a b b b b", (7, 0, 1, 0)),
    ("c a c", "e e a e", (1, 2, 0, 1)),
    ("f c a c c c d f c b d", "c a c c c d f c b d", (10, 0, 1, 0)),
    ("b d", "c c", (0, 2, 0, 0)),
    ("d a e f c", "a d a b", (2, 1, 2, 1)),
    ("e e c b c c", "f e c b", (3, 1, 2, 0)),
    ("c d b f a a e e d a b f", "c d b f a a e f a b f", (10, 1, 1, 0)),
    ("d", "b d e b", (1, 0, 0, 3)),
    ("d d f f c d c c d", "d d f f c d c e d", (8, 1, 0, 0)),
    ("f e f a c c", "e f c c", (4, 0, 2, 0)),
    ("a d e c c f c d c e", "f c c c f c f d c b", (6, 3, 1, 1)),
    ("d c c e b e b b c d c f", "c e e e b c d c", (7, 1, 4, 0)),
    ("b f b", "f b", (2, 0, 1, 0)),
    ("b", "c", (0, 1, 0, 0)),
    ("d b e", "d b", (2, 0, 1, 0)),
    ("a e b b f c a c d c", "a f b e f c a c d c", (8, 2, 0, 0)),
    ("f e c d b b e d e d", "b e a", (2, 1, 7, 0)),
    ("f a d a c e", "e a f a c e", (4, 2, 0, 0)),
    ("f d d b e e c f", "f d d b e e f", (7, 0, 1, 0)),
    ("c a b d", "", (0, 0, 4, 0)),
    ("e e c b d a b d", "e e c b b d", (6, 0, 2, 0)),
    ("e f c e c", "f f c c", (3, 1, 1, 0)),
]


class Heard:
    def __init__(self, *texts):
        self.said = list(texts)

    def texts(self):
        return self.said

    def nll(self, texts):
        return torch.zeros(len(texts))

    def rows(self, index):
        return Heard(*[self.said[i] for i in index.tolist()])


def rows(truths, clean, adversarial, *metrics, target=None):
    n = len(truths)
    batch = Batch("clip", [str(i) for i in range(n)], torch.zeros(n, 4), list(truths), torch.full((n,), 4))
    chosen = applicable(metrics, "clip", "transcript", with_model=True)
    return measure(
        Samples(batch, batch.x, 16000, None, Heard(*clean), Heard(*adversarial), target=target), chosen
    ), columns(chosen)


@pytest.mark.parametrize(("reference", "hypothesis", "counts"), SCLITE)
def test_counts_are_those_of_sclite(reference, hypothesis, counts):
    assert edits(reference.split(), hypothesis.split(), "sclite") == Edits(*counts)


def cheapest(reference, hypothesis, weights):
    """Plain recursion over every alignment."""
    substitute, delete, insert = weights
    if not reference or not hypothesis:
        return len(reference) * delete + len(hypothesis) * insert
    return min(
        cheapest(reference[1:], hypothesis[1:], weights) + substitute * (reference[0] != hypothesis[0]),
        cheapest(reference[1:], hypothesis, weights) + delete,
        cheapest(reference, hypothesis[1:], weights) + insert,
    )


@pytest.mark.parametrize("costs", ["unit", "sclite"])
def test_the_alignment_is_the_cheapest_of_all(costs):
    short = ["".join(p) for n in range(4) for p in itertools.product("ab", repeat=n)]
    for reference, hypothesis in itertools.product(short, short):
        found = edits(reference, hypothesis, costs)
        s, d, i = WEIGHTS[costs]
        assert found.substitutions * s + found.deletions * d + found.insertions * i == cheapest(
            reference, hypothesis, (s, d, i)
        )
        assert found.correct + found.substitutions + found.deletions == len(reference)
        assert found.correct + found.substitutions + found.insertions == len(hypothesis)


def sentences(seed, n):
    draw = random.Random(seed)
    return [
        " ".join(draw.choices(["one", "two", "three", "four", "Five", "o'clock"], k=draw.randint(1, 12)))
        for _ in range(n)
    ]


def test_rates_are_those_of_jiwer():
    truths, heard = sentences(0, 60), sentences(1, 60)
    found, shown = rows(
        truths, heard, heard[::-1], {"name": "wer", "normalise": "none"}, {"name": "cer", "normalise": "none"}
    )
    for truth, clean, adversarial, row in zip(truths, heard, heard[::-1], found, strict=True):
        assert row["clean_wer"] == pytest.approx(jiwer.wer(truth, clean))
        assert row["wer"] == pytest.approx(jiwer.wer(truth, adversarial))
        assert row["clean_cer"] == pytest.approx(jiwer.cer(truth, clean))
        assert row["cer"] == pytest.approx(jiwer.cer(truth, adversarial))
    summary = summarise(found, shown)
    assert summary["wer"]["rate"] == pytest.approx(jiwer.wer(truths, heard[::-1]))
    assert summary["clean_cer"]["rate"] == pytest.approx(jiwer.cer(truths, heard))
    assert summary["cer_mean"]["mean"] == pytest.approx(
        sum(map(jiwer.cer, truths, heard[::-1])) / len(truths)
    )


@pytest.mark.parametrize(
    ("how", "wer", "ser", "correct"), [("none", 1.5, 1, 0), ("words", 0.5, 1, 0), ("english", 0, 0, 1)]
)
def test_what_counts_as_the_same_text_is_said_by_the_option(how, wer, ser, correct):
    chosen = [{"name": name, "normalise": how} for name in ("wer", "ser", "correct")]
    (row,), _ = rows(["Yes, 5"], ["yes five"], ["YES ... five."], *chosen)
    assert (row["wer"], row["ser"], row["correct"]) == (wer, ser, correct)


@pytest.mark.parametrize(("reference", "hypothesis", "counts"), SCLITE)
def test_the_columns_of_wer_count_each_kind_of_error(reference, hypothesis, counts):
    (row,), _ = rows([reference], [reference], [hypothesis], {"name": "wer", "costs": "sclite"})
    assert (row["substitutions"], row["deletions"], row["insertions"]) == counts[1:]
    assert row["word_errors"] == sum(counts[1:])


def test_a_sentence_is_right_or_wrong():
    found, shown = rows(
        ["one two", "three", "four"], ["one two", "tree", "four"], ["one too", "tree", "four"], "ser"
    )
    assert [(r["clean_ser"], r["ser"]) for r in found] == [(0, 1), (1, 1), (0, 0)]
    assert summarise(found, shown)["ser"]["mean"] == pytest.approx(2 / 3)


def test_targeted_success_is_what_is_missing_to_the_error_rate_against_the_target():
    targets = ["open the door now"] * 4
    texts = ["open the door now", "Open the floor now.", "hello", "one two three four five six"]
    found, _ = rows(["go on"] * 4, ["go on"] * 4, texts, "targeted_success", target=targets)
    assert [r["tasr_word"] for r in found] == [1, 0.75, 0, 0]
    assert [r["wer_to_target"] for r in found] == [0, 0.25, 1, 1.5]
    for target, text, row in zip(targets, texts, found, strict=True):
        plain = text.lower().replace(".", "")
        assert row["tasr_char"] == pytest.approx(max(1 - jiwer.cer(target, plain), 0))


def test_untargeted_success_is_the_error_rate_cut_at_1():
    found, _ = rows(["go on", "stop", ""], ["", "", ""], ["go in", "a b c", "hm"], "untargeted_success")
    assert [r["uasr_word"] for r in found] == [0.5, 1, 1]
    assert [r["uasr_char"] for r in found] == [0.2, 1, 1]


def test_without_a_target_there_is_no_targeted_success():
    (row,), _ = rows(["go"], ["go"], ["no"], "targeted_success")
    assert {row[name] for name in ("tasr_word", "tasr_char", "wer_to_target")} == {None}
    assert row["missing"]["tasr_word"] == "the attack has no target text"


def test_spaces_do_not_make_words():
    (row,), _ = rows(["  one   two "], ["one two"], ["one two"], "wer", "cer")
    assert (row["wer"], row["cer"], row["words"], row["characters"]) == (0, 0, 2, 7)


def test_nothing_said_and_nothing_heard_is_right():
    (row,), _ = rows([""], [""], [" "], "wer", "cer")
    assert (row["wer"], row["clean_wer"], row["cer"]) == (0, 0, 0)


def test_words_heard_where_nothing_was_said_give_no_rate_but_count():
    (row,), _ = rows([""], [""], ["go away"], "wer")
    assert row["wer"] is None
    assert row["missing"]["wer"] == "the reference has no words; 2 were added"
    assert (row["word_errors"], row["words"]) == (2, 0)


def test_a_rate_may_exceed_1():
    assert rows(["go"], ["go"], ["no no no"], "wer")[0][0]["wer"] == 3
