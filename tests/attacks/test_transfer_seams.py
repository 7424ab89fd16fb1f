"""Attacks on several models at once, with dropout left on, and a third model that looks on."""

import pytest
import torch
from torch import nn

import limen
from limen.attacks.engine.run import Attack
from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Batch, EnsembleOutputs
from limen.models.base.ensemble import Ensemble, dropping
from limen.models.base.model import Classifier, Model

X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)).view(6, 1, 2, 2)
BATCH = Batch("picture", [f"s{i}" for i in range(6)], X, torch.zeros(6, dtype=torch.long))
PGD = {"name": "pgd", "steps": 5, "random_start": False, "budget": {"name": "l2", "eps": 0.1}}


def linear(seed: int) -> Model:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    nn.init.normal_(network[1].weight, generator=torch.Generator().manual_seed(seed))
    return Classifier(network.eval(), "picture", ["a", "b", "c"])


def test_the_gradient_of_several_models_is_the_sum_of_theirs():
    one, two = linear(1), linear(2)
    attack = Attack.parse(PGD)
    gradients = [attack.pose(m, BATCH).gradient(X)[0] for m in (one, two, Ensemble([one, two]))]
    torch.testing.assert_close(gradients[2], gradients[0] + gradients[1])


def test_success_on_several_models_is_success_on_each():
    one, two = linear(1), linear(2)
    attack = Attack.parse(PGD)
    both = attack(Ensemble([one, two]), BATCH)
    assert isinstance(both.adversarial, EnsembleOutputs)
    each = [m(both.x_adv).argmax(1) != 0 for m in (one, two)]
    assert torch.equal(both.success, each[0] & each[1])


def test_models_of_different_kinds_are_not_attacked_together():
    with pytest.raises(UserError, match="attacked together"):
        Ensemble([linear(0), limen.load_model("ctc_small")])


def test_an_attack_that_looks_at_single_classes_says_that_it_needs_one_model():
    with pytest.raises(UserError, match="one classifier"):
        Attack.parse("deepfool")(Ensemble([linear(0), linear(1)]), BATCH)


def test_dropout_kept_on_drops_its_share_by_the_samples_own_stream():
    layer = nn.Dropout(0.25).eval()
    x = torch.ones(3, 4000)
    with dropping(layer, seeds.generators(0, ["a", "b", "c"], "attack")):
        together = layer(x)
    with dropping(layer, seeds.generators(0, ["b"], "attack")):
        alone = layer(x[1:2])
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[0], together[1])
    assert together.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (together == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert torch.equal(layer(x), x)  # and is off again


def test_a_frame_of_a_clip_drops_the_same_units_however_long_the_padding():
    layer = nn.Dropout(0.5).eval()
    short, long = torch.ones(1, 30, 16), torch.ones(1, 45, 16)
    dropped = []
    for x in (short, long):
        with dropping(layer, seeds.generators(0, ["a"], "attack")):
            dropped.append(layer(x))
    assert torch.equal(dropped[0], dropped[1][:, :30])


@pytest.mark.parametrize("name", ["ctc_small", "deepspeech2", "lstm_seq2seq", "transformer_seq2seq"])
def test_dropout_kept_on_in_a_recogniser_that_lays_clips_end_to_end_drops_by_the_clips_own_stream(name):
    model, lengths = limen.load_model(name).eval(), torch.tensor([9000, 7000])
    x = torch.rand(2, 9000, generator=torch.Generator().manual_seed(0)) * 0.2
    x[1, 7000:] = 0
    with torch.no_grad():
        plain = model(x, lengths).nll(["one", "one"])
        with dropping(model, seeds.generators(0, ["a", "b"], "attack")):
            together = model(x, lengths).nll(["one", "one"])
        with dropping(model, seeds.generators(0, ["b"], "attack")):
            alone = model(x[1:, :7000], lengths[1:]).nll(["one"])
    assert ((together - plain).abs() > 1e-3).all()
    torch.testing.assert_close(alone[0], together[1], rtol=1e-5, atol=1e-5)


def test_the_model_that_looks_on_keeps_the_point_it_finds_best():
    proxy, third = linear(1), linear(2)
    seen = []

    class Recorded(Classifier):
        def forward(self, x, lengths=None, generators=None):
            logits = super().forward(x, lengths, generators)
            if len(x) == len(X):
                seen.append((x.clone(), nn.functional.cross_entropy(logits, BATCH.y, reduction="none")))
            return logits

    stop = Recorded(third.network, "picture", ["a", "b", "c"])
    attack = Attack.parse({**PGD, "early_stop": False})
    result = attack(proxy, BATCH, stop=stop)
    losses = torch.stack([loss for _, loss in seen])
    best = losses.argmax(0)
    assert len(seen) == 6  # five steps and the end
    for i, k in enumerate(best.tolist()):
        assert torch.equal(result.x_adv[i], seen[k][0][i])
    few = len(seen)
    attack(proxy, BATCH, stop=stop, stop_every=3)
    assert len(seen) - few == 3  # the first and the fourth gradient, and the end


def test_two_recognisers_are_attacked_together_and_each_says_something_else():
    data = next(limen.load_data("digit_strings", batch_size=2, limit=2))
    one, two = limen.load_model("ctc_small"), limen.load_model("ctc_small")
    attack = Attack.parse({"name": "pgd", "steps": 15, "budget": {"name": "snr", "snr_db": 15}})
    result = attack(Ensemble([one, two], dropout=True), data, victim=one, stop=two)
    assert result.success.all()
    assert (result.x_adv != data.x).any()
