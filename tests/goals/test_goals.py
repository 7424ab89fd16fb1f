"""What the attacker wants: losses rise towards it, margins change sign exactly where it is reached, targets are what was asked for."""

import pytest
import torch
import torch.nn.functional as F

from limen import seeds
from limen.components import load
from limen.errors import UserError
from limen.goals._goal import Asked, Goal

LOGITS = torch.tensor([[2.0, 1.0, -1.0], [0.0, 3.0, 1.0], [5.0, 4.0, 4.5], [0.0, 0.5, 1.0]])
Y = torch.tensor([0, 0, 2, 2])


class Heard:
    def __init__(self, texts: list[str]):
        self.said = texts

    def nll(self, texts):
        return torch.tensor([float(a != b) for a, b in zip(texts, self.said, strict=True)])

    def texts(self):
        return self.said

    def rows(self, index):
        return Heard([self.said[i] for i in index.tolist()])


def asked(clean=LOGITS, y=Y, seed=0):
    return Asked(y, clean, seeds.generators(seed, [f"s{i}" for i in range(len(y))], "goal"))


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
    torch.testing.assert_close(wanted.loss(LOGITS), -F.cross_entropy(LOGITS, torch.ones(4, dtype=torch.long), reduction="none"))


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
    drawn = goal("target_class", torch.zeros(50, 5), torch.arange(50) % 5, target="random", among=[1, 3]).reference
    assert set(drawn.tolist()) <= {1, 3}


@pytest.mark.parametrize(("options", "words"), [({"target": 3}, "from 0 to 2"), ({"target": "random", "among": [7]}, "from 0 to 2"),
                                                ({"target": "random", "among": [0]}, "no wrong class")])  # fmt: skip
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
    assert torch.equal(goal("untargeted").rows(torch.tensor([3, 1])).reached(LOGITS[[3, 1]]), torch.tensor([False, True]))
    words = Goal(["a", "b", "c"], targeted=False).rows(torch.tensor([2, 0]))
    assert words.reference == ["c", "a"]


def test_a_transcript_is_reached_when_every_letter_is_right():
    wanted = goal("transcript", Heard(["open", "open the door", "close"]), ["x", "y", "z"], text="open the door")
    assert wanted.reached(Heard(["open", "open the door", "close"])).tolist() == [False, True, False]
    assert wanted.loss(Heard(["open", "open the door", "close"])).tolist() == [-1.0, 0.0, -1.0]
    away = goal("untargeted", Heard(["a", "b"]), ["a", "c"])
    assert away.reached(Heard(["a", "b"])).tolist() == [False, True]


def test_goals_of_the_other_kind_of_model_are_refused_in_words():
    with pytest.raises(UserError, match="recogniser"):
        goal("transcript", text="hello")
    with pytest.raises(UserError, match="classifier"):
        goal("target_class", Heard(["a"]), ["a"], target=1)
