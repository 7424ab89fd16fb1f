"""What the model answered: correct, top_k, confidence, fooled."""

import pytest
import torch

from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, measure

CLEAN = torch.tensor([[3.0, 1, 0, -1], [0, 2, 1, 3], [1, 0.3, 0.1, 0.2]])
ADVERSARIAL = torch.tensor([[1.0, 3, 0, -1], [0, 2, 1, 3], [0, 1, 0.5, 0]])
Y = torch.tensor([0, 1, 2])


def rows(*metrics, clean=CLEAN, adversarial=ADVERSARIAL, target=None):
    x = torch.zeros(len(clean), 1, 2, 2)
    samples = Samples(
        Batch("picture", list("abc"), x, Y), x, None, list("wxyz"), clean, adversarial, target=target
    )
    return measure(samples, applicable(metrics, "picture", "class", with_model=True))


def column(name, *metrics, **more):
    return [r[name] for r in rows(*metrics, **more)]


def test_correct_compares_the_answer_with_the_truth():
    assert column("clean_correct", "correct") == [1, 0, 0]
    assert column("correct", "correct") == [0, 0, 0]


def test_fooled_compares_the_answer_with_the_clean_answer_whatever_the_truth():
    assert column("fooled", "fooled") == [1, 0, 1]


def test_top_k_looks_for_the_truth_among_the_likeliest():
    assert column("clean_top_2", {"name": "top_k", "k": 2}) == [1, 1, 0]
    assert column("top_2", {"name": "top_k", "k": 2}) == [1, 1, 1]


def test_top_k_of_too_few_classes_says_nothing():
    assert {r["missing"]["top_5"] for r in rows("top_k")} == {
        "there are only 4 classes, so the true class is always among 5"
    }


def test_confidence_is_the_softmax_probability_of_the_prediction():
    assert column("clean_confidence", "confidence") == pytest.approx(
        [CLEAN[i].softmax(0).max().item() for i in range(3)]
    )
    assert column("confidence", "confidence") == pytest.approx(
        [ADVERSARIAL[i].softmax(0).max().item() for i in range(3)]
    )


def test_an_answer_of_nan_is_no_answer():
    broken = ADVERSARIAL.clone()
    broken[1, 0] = torch.nan
    for r in rows("correct", "fooled", "confidence", adversarial=broken)[1:2]:
        assert set(r["missing"]) == {"correct", "fooled", "confidence"}
        assert r["clean_correct"] == 0


def test_the_order_of_the_likeliest_classes_is_compared_rank_by_rank():
    # the example of equation D.1: the first two classes match, the third does not
    target = torch.tensor([[0, 0.17, 0, 0, 0.55, 0.28, 0, 0, 0, 0]]).expand(3, -1)
    answers = torch.full((3, 10), 0.01)
    answers[0, [4, 5, 2]] = torch.tensor([0.5, 0.3, 0.1])  # 4, 5, then 2 instead of 1
    answers[1, [4, 5, 1]] = torch.tensor([0.5, 0.3, 0.1])
    answers[2, [5, 4, 0]] = torch.tensor([0.5, 0.3, 0.1])
    found = column("target_order", "target_order", clean=answers, adversarial=answers.log(), target=target)
    assert found == pytest.approx([2 / 3, 1, 0])


def test_a_goal_without_a_distribution_has_no_order():
    for target in (None, torch.tensor([0, 1, 2])):
        assert {r["missing"]["target_order"] for r in rows("target_order", target=target)} == {
            "the goal names no distribution over classes"
        }
