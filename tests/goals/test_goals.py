"""What the attacker wants: losses rise towards it, margins change sign exactly where it is reached, targets
are what was asked for."""

import pytest
import torch
import torch.nn.functional as F

from limen.core import seeds
from limen.core.components import load, parse
from limen.core.errors import UserError
from limen.core.types import EnsembleOutputs
from limen.goals.base.goal import Goal, GoalContext
from limen.goals.base.options import make_goal

LOGITS = torch.tensor([[2.0, 1.0, -1.0], [0.0, 3.0, 1.0], [5.0, 4.0, 4.5], [0.0, 0.5, 1.0]])
Y = torch.tensor([0, 0, 2, 2])


class Heard:
    exact = True

    def __init__(self, texts: list[str]):
        self.said = texts

    def nll(self, texts, first_weight=0.0):
        return torch.tensor([float(a != b) for a, b in zip(texts, self.said, strict=True)])

    def texts(self):
        return self.said

    def would_transcribe(self, texts, first=None):
        cut = first or [None] * len(texts)
        return torch.tensor([a[:n] == b[:n] for a, b, n in zip(self.said, texts, cut, strict=True)])

    def rows(self, index):
        return Heard([self.said[i] for i in index.tolist()])


def asked(clean=LOGITS, y=Y, seed=0):
    ids = [f"s{i}" for i in range(len(y))]
    return GoalContext(y, clean, seeds.generators(seed, ids, "goal"), ids)


def goal(name, clean=LOGITS, y=Y, seed=0, **options):
    component = load("goals", name)
    return component.function(asked(clean, y, seed), component.parse(options))


def test_untargeted_moves_away_from_the_label_or_from_the_models_own_answer():
    assert goal("untargeted").reached(LOGITS).tolist() == [False, True, True, False]
    assert goal("untargeted", away_from="prediction").reached(LOGITS).tolist() == [False] * 4
    torch.testing.assert_close(goal("untargeted").loss(LOGITS), F.cross_entropy(LOGITS, Y, reduction="none"))


def test_a_target_is_reached_when_it_is_predicted_and_its_loss_is_negative():
    wanted = goal("target_class", target=1)
    assert wanted.targeted
    assert wanted.reached(LOGITS).tolist() == [False, True, False, False]
    torch.testing.assert_close(
        wanted.loss(LOGITS), -F.cross_entropy(LOGITS, torch.ones(4, dtype=torch.long), reduction="none")
    )


def test_the_least_likely_class_is_the_smallest_logit():
    assert torch.equal(goal("target_class", target="least_likely").reference, LOGITS.argmin(1))


def test_random_targets_are_wrong_classes_evenly_and_belong_to_the_sample():
    logits, y = torch.zeros(3000, 5), torch.arange(3000) % 5
    drawn = goal("target_class", logits, y, target="random").reference
    assert (drawn != y).all()
    counts = torch.bincount((drawn - y) % 5, minlength=5)[1:]
    assert (counts - 750).abs().max() < 100
    assert torch.equal(drawn[:7], goal("target_class", logits[:7], y[:7], target="random").reference)
    assert not torch.equal(drawn, goal("target_class", logits, y, seed=1, target="random").reference)


def test_random_targets_keep_to_the_classes_named():
    drawn = goal(
        "target_class", torch.zeros(50, 5), torch.arange(50) % 5, target="random", among=[1, 3]
    ).reference
    assert set(drawn.tolist()) <= {1, 3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": 3}, "from 0 to 2"),
        ({"target": "random", "among": [7]}, "from 0 to 2"),
        ({"target": "random", "among": [0]}, "no wrong class"),
    ],
)
def test_impossible_targets_are_refused_in_words(options, words):
    with pytest.raises(UserError, match=words):
        goal("target_class", **options)


@pytest.mark.parametrize("targeted", [True, False])
def test_the_margin_is_positive_exactly_where_the_goal_is_reached(targeted):
    draw = torch.Generator().manual_seed(0)
    logits, reference = torch.randn(500, 4, generator=draw), torch.randint(4, (500,), generator=draw)
    wanted = Goal(reference, targeted)
    assert torch.equal(wanted.margin(logits) > 0, wanted.reached(logits))


def test_rows_take_the_goal_of_some_samples():
    assert torch.equal(
        goal("untargeted").rows(torch.tensor([3, 1])).reached(LOGITS[[3, 1]]), torch.tensor([False, True])
    )
    words = Goal(["a", "b", "c"], targeted=False).rows(torch.tensor([2, 0]))
    assert words.reference == ["c", "a"]


def test_a_transcript_is_reached_when_every_letter_is_right():
    wanted = goal(
        "transcript", Heard(["open", "open the door", "close"]), ["x", "y", "z"], text="open the door"
    )
    assert wanted.reached(Heard(["open", "open the door", "close"])).tolist() == [False, True, False]
    assert wanted.loss(Heard(["open", "open the door", "close"])).tolist() == [-1.0, 0.0, -1.0]
    away = goal("untargeted", Heard(["a", "b"]), ["a", "c"])
    assert away.reached(Heard(["a", "b"])).tolist() == [False, True]


def test_goals_of_the_other_kind_of_model_are_refused_in_words():
    with pytest.raises(UserError, match="recogniser"):
        goal("transcript", text="hello")
    with pytest.raises(UserError, match="is for models that give classes; this one gives transcripts"):
        make_goal(
            parse("goals", {"name": "target_class", "target": 1}), asked(Heard(["a"]), ["a"]), "transcript"
        )


def test_a_list_gives_each_sample_the_text_of_the_closest_length_or_one_of_its_own_draw():
    said, heard = ["a", "four words of text", "mid size"], Heard(["a", "b", "c"])
    assert goal(
        "transcript", heard, said, among=["go", "now turn left", "stop now please sir"]
    ).reference == ["go", "stop now please sir", "now turn left"]
    many = [str(i) for i in range(200)]
    drawn = goal("transcript", Heard(many), many, among=["x", "y"], choose="random").reference
    assert 60 < drawn.count("x") < 140
    assert (
        drawn[:9]
        == goal("transcript", Heard(many[:9]), many[:9], among=["x", "y"], choose="random").reference
    )


@pytest.mark.parametrize("options", [{}, {"text": "a", "among": ["b"]}])
def test_a_target_is_one_text_or_a_list_and_never_both(options):
    with pytest.raises(UserError, match="either text"):
        goal("transcript", Heard(["a"]), ["a"], **options)


def test_texts_are_judged_without_their_punctuation():
    wanted = goal("transcript", Heard(["x"] * 2), ["x"] * 2, text="OK, browse to evil.com")
    assert wanted.judged(Heard([" Ok browse to evil com.", "ok browse"])).tolist() == [True, False]
    exact = goal("transcript", Heard(["x"]), ["x"], text="OK", normalise="none")
    assert exact.judged(Heard(["ok"])).tolist() == [False]


def test_away_from_the_truth_starts_from_the_models_own_spelling_of_it():
    away = goal("untargeted", Heard(["The cat.", "A dog"]), ["the cat", "the dog"])
    assert away.reference == ["The cat.", "the dog"]
    # another punctuation is no other answer; a search, which decodes nothing, is told where it may have met
    # one
    assert away.reached(Heard(["the cat", "A dog"])).tolist() == [True, True]
    assert away.needs_decoding(Heard(["", ""])).tolist() == [True, False]
    assert away.judged(Heard(["the cat!", "the dog"])).tolist() == [False, False]
    assert away.rows(torch.tensor([1])).needs_decoding(Heard([""])) is None


def test_a_share_of_wrong_words_can_be_asked_for():
    away = goal("untargeted", Heard(["a b c d"] * 3), ["a b c d"] * 3, at_least=0.5)
    heard = Heard(["a b c x", "a b x y", "a b c d"])
    assert away.judged(heard).tolist() == [False, True, False]
    assert away.reached(heard).tolist() == [True, True, False]
    assert away.needs_decoding(heard).all()
    assert goal("untargeted", heard, ["a b c d"] * 3).needs_decoding(heard) is None
    assert (
        goal("transcript", heard, ["a"] * 3, text="OK, now").needs_decoding(heard) is None
    )  # letter for letter or not at all


def test_the_first_word_is_put_before_the_truth_and_success_looks_at_it_alone():
    wanted = goal("first_word", Heard(["one two", "but six"]), ["one two", "but six"], word="but")
    assert wanted.reference == ["but one two", "but six"]
    assert wanted.reached(Heard(["but nine", "six"])).tolist() == [True, False]
    assert wanted.judged(Heard(["But. Nine", "butter"])).tolist() == [True, False]
    assert wanted.rows(torch.tensor([1])).reached(Heard(["but"])).tolist() == [False]


class Listener(Heard):
    languages = ("en", "fr", "sr")

    def __init__(self, logits):
        super().__init__(["x"] * len(logits))
        self.language_logits = torch.tensor(logits)


def test_a_language_is_reached_when_the_detector_says_so_and_its_loss_is_the_detectors():
    clean = Listener([[3.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    wanted = goal("language", clean, ["x", "x"], target="sr")
    assert wanted.reached(clean).tolist() == [False, True]
    assert wanted.target is None
    torch.testing.assert_close(
        wanted.loss(clean), -F.cross_entropy(clean.language_logits, torch.tensor([2, 2]), reduction="none")
    )
    with pytest.raises(UserError, match="has no language 'xx'"):
        goal("language", clean, ["x", "x"], target="xx")
    with pytest.raises(UserError, match="detects languages"):
        goal("language", Heard(["a"]), ["a"])


def test_a_distribution_is_reached_when_its_classes_lead_in_its_order():
    wanted = goal("distribution", torch.zeros(4, 5), torch.zeros(4, dtype=torch.long), k=3)
    assert torch.allclose(wanted.target.sum(1), torch.ones(4))
    assert (wanted.target > 0).sum(1).tolist() == [3] * 4
    right = wanted.target.clamp_min(1e-6).log()
    assert wanted.reached(right).all()
    torch.testing.assert_close(
        wanted.loss(right), torch.zeros(4), atol=1e-4, rtol=0
    )  # the divergence from itself
    swapped = right.clone()
    first, second = wanted.wanted[0, 0], wanted.wanted[0, 1]
    swapped[0, [first, second]] = right[0, [second, first]]
    assert wanted.reached(swapped).tolist() == [False, True, True, True]
    assert torch.equal(wanted.margin(swapped) > 0, wanted.reached(swapped))


def test_losses_of_several_models_add_up_and_all_must_be_fooled():
    away, other = goal("untargeted"), LOGITS.roll(1, 1)
    both = EnsembleOutputs([LOGITS, other])
    torch.testing.assert_close(away.loss(both), away.loss(LOGITS) + away.loss(other))
    assert torch.equal(away.reached(both), away.reached(LOGITS) & away.reached(other))
    assert torch.equal(away.margin(both), torch.minimum(away.margin(LOGITS), away.margin(other)))


def test_a_table_gives_each_sample_its_own_target_by_id(tmp_path):
    table = tmp_path / "set.csv"
    table.write_text("id,target\ns1,stop\ns0,go on\n")
    heard = Heard(["a", "b"])
    assert goal("transcript", heard, ["a", "b"], table=str(table)).reference == ["go on", "stop"]
    table.write_text("id,target\ns1,stop\ns0,\n")
    with pytest.raises(UserError, match="no target for the id 's0'"):
        goal("transcript", heard, ["a", "b"], table=str(table))
    with pytest.raises(UserError, match="there is no table"):
        goal("transcript", heard, ["a", "b"], table=str(tmp_path / "none.csv"))
