"""Votes over draws: on exact problems whose draws are written down."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Batch, GuardedOutputs
from limen.defenses.base.compose import defended
from limen.defenses.base.voting import (
    VotedTranscripts,
    majority_logits,
    mean_outputs,
    median,
    most_frequent,
)
from limen.models.base.model import Classifier, Model


class Spelled:
    """Transcripts that are written down; the loss of a text is the number of letters it has too many."""

    exact = True

    def __init__(self, texts: list[str]):
        self.said = texts

    def texts(self) -> list[str]:
        return self.said

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        return torch.tensor([float(abs(len(a) - len(b))) for a, b in zip(texts, self.said, strict=True)])

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        return torch.tensor([a == b for a, b in zip(texts, self.said, strict=True)])

    def rows(self, index: Tensor) -> "Spelled":
        return Spelled([self.said[i] for i in index.tolist()])


class Drawn(Model):
    """A model of two classes that answers 1 with a probability equal to the sample's mean."""

    kind, output, classes, random = "picture", "class", ["a", "b"], True

    def forward(self, x, lengths=None, generators=None):
        u = torch.stack([torch.rand((), generator=g) for g in generators])
        p = x.flatten(1).mean(1)
        return torch.stack([p * 0, torch.where(u < p, 2.0, -2.0) + 0 * p], 1)


def test_the_most_frequent_class_wins_even_if_the_mean_probability_prefers_another():
    sure, unsure = [4.0, 0.0, 0.0], [0.0, 0.1, 0.0]
    draws = [torch.tensor([one]) for one in (sure, unsure, unsure)]
    assert mean_outputs(draws, "probabilities").argmax(1) == 0
    assert majority_logits(draws).argmax(1) == 1


def test_votes_keep_the_mean_probabilities_where_they_agree_and_their_gradient_everywhere():
    g = torch.Generator().manual_seed(0)
    draws = torch.randn(5, 40, 3, generator=g, dtype=torch.float64).requires_grad_()
    logits, mean = majority_logits(list(draws)), mean_outputs(list(draws), "probabilities")
    agree = logits.argmax(1) == mean.argmax(1)
    assert 0 < agree.sum() < 40
    assert torch.equal(logits[agree], mean[agree])
    weights = torch.randn(40, 3, generator=g, dtype=torch.float64)
    one, other = (torch.autograd.grad((v * weights).sum(), draws)[0] for v in (logits, mean))
    assert torch.equal(one, other)


def test_a_tie_goes_to_the_class_with_the_larger_mean_probability():
    draws = [torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
    assert majority_logits(draws).argmax(1) == 0
    assert majority_logits(draws[::-1]).argmax(1) == 0


def test_the_most_frequent_text_wins_and_ties_go_to_the_one_nearest_to_all():
    assert most_frequent(["a b", "c", "a b", "d"]) == "a b"
    assert most_frequent(["x y z", "a b c", "a b", "a b c d"]) == "a b c"
    assert most_frequent(["b", "a"]) == "b", "the first of equals"


def test_the_median_text_has_the_fewest_word_errors_over_all():
    texts = ["go left now", "go left", "no left now", "go left now please"]
    assert median(texts) == "go left now"


def test_a_voted_transcript_is_one_transcript_of_many_draws():
    draws = [Spelled(["yes", "a"]), Spelled(["no", "a"]), Spelled(["yes", "bb"])]
    voted = VotedTranscripts(draws, most_frequent)
    assert voted.texts() == ["yes", "a"]
    assert voted.would_transcribe(["yes", "a"]).tolist() == [True, True]
    assert voted.would_transcribe(["no", "bb"]).tolist() == [False, False]
    assert voted.nll(["yes", "a"]).tolist() == pytest.approx([1 / 3, 1 / 3])
    assert voted.rows(torch.tensor([1])).texts() == ["a"]


def test_half_of_the_draws_is_no_majority():
    voted = VotedTranscripts([Spelled(["yes"]), Spelled(["no"])], most_frequent)
    assert voted.would_transcribe(["yes"]).tolist() == [False]


def test_the_model_counts_the_votes_of_its_draws():
    x = torch.tensor([0.0, 1.0, 0.3]).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    counts = Drawn().votes(x, 200, None, seeds.generators(0, ["a", "b", "c"]))
    assert counts[:2].tolist() == [[200, 0], [0, 200]]
    assert abs(int(counts[2, 1]) - 60) < 5 * (200 * 0.3 * 0.7) ** 0.5
    assert counts.sum(1).tolist() == [200] * 3
    alone = Drawn().votes(x[2:], 200, None, seeds.generators(0, ["c"]))
    assert torch.equal(alone[0], counts[2]), "a sample's votes do not depend on its batch"


def test_a_recogniser_returns_the_texts_of_its_draws():
    class Speller(Model):
        kind, output, random, calls = "clip", "transcript", True, 0

        def forward(self, x, lengths=None, generators=None):
            self.calls += 1
            return Spelled([f"{self.calls}", "same"])

    assert Speller().votes(torch.zeros(2, 8), 3) == [["1", "2", "3"], ["same"] * 3]


def test_a_model_that_draws_nothing_is_called_once():
    class Fixed(Drawn):
        random, calls = False, 0

        def forward(self, x, lengths=None, generators=None):
            self.calls += 1
            return torch.tensor([[0.0, 1.0]])

    model = Fixed()
    assert model.votes(torch.zeros(1, 1, 2, 2), 7).tolist() == [[0, 7]]
    assert model.calls == 1


def test_a_refused_draw_has_no_vote():
    class Wary(Drawn):
        refuses = True

        def forward(self, x, lengths=None, generators=None):
            logits = super().forward(x, lengths, generators)
            return GuardedOutputs(logits, logits[:, 1])  # refuses whenever it would answer 1

    counts = Wary().votes(torch.full((1, 1, 2, 2), 0.3), 100)
    assert counts[0, 1] == 0
    assert 0 < counts[0, 0] < 100


def test_majority_votes_over_all_defences_of_the_list_whatever_its_position():
    model = defended(Drawn(), [{"name": "majority", "votes": 101}])
    x = torch.full((1, 1, 2, 2), 0.35).expand(20, 1, 2, 2)
    streams = seeds.generators(0, [str(i) for i in range(20)])
    assert (model(x, None, streams).argmax(1) == 0).all()
    first = defended(Classifier(torch.nn.Flatten(), "picture", ["a", "b"]), ["majority", "jitter"])
    second = defended(Classifier(torch.nn.Flatten(), "picture", ["a", "b"]), ["jitter", "majority"])
    assert type(first).__name__ == type(second).__name__ == "Majorities"
    y = torch.rand(2, 1, 1, 2)
    assert torch.equal(first(y), second(y))


def test_votes_over_a_model_that_draws_nothing_are_refused():
    with pytest.raises(UserError, match="Add a random defense to the list"):
        defended(Classifier(torch.nn.Flatten(), "picture", ["a", "b"]), ["majority"])


def test_an_attack_follows_the_votes_and_averages_as_few_calls_as_they_need():
    inner = defended(Classifier(torch.nn.Flatten(), "picture", ["a", "b"]), [{"name": "jitter", "draws": 8}])
    assert inner.draws == 8
    model = defended(inner, [{"name": "majority", "votes": 5}])
    assert model.draws == 2
    batch = Batch("picture", ["s"], torch.tensor([0.6, 0.4]).view(1, 1, 1, 2), torch.tensor([0]))
    attack = Attack.parse({"name": "pgd", "steps": 20, "budget": {"name": "linf", "eps": 0.4}})
    assert attack(model, batch).success.all()
