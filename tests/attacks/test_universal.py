"""One perturbation for many: exact where a linear model allows it, laid on clips of any length, crafted once
and applied to others."""

import pytest
import torch
from exact import linear, smallest
from torch import nn

import limen
from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.models.base.model import Classifier


def half(n: int = 24) -> tuple[Classifier, Batch, float]:
    """Samples of one class of a linear model of two, and the largest of their exact L2 radii."""
    model, batch, weights, gaps = linear(classes=2, n=n)
    radii = smallest(weights, gaps, batch.y, 2.0)
    rows = (batch.y == 0).nonzero().squeeze(1)
    return model, batch.rows(rows), float(radii[rows].max())


@pytest.mark.parametrize("name", ["uap", "uap_hc"])
def test_a_perturbation_crafted_on_some_fools_others_of_the_class_beyond_the_largest_radius(name):
    model, batch, radius = half()
    attack = Attack.parse(
        {
            "name": name,
            "budget": {"name": "l2", "eps": 1.02 * radius},
            **({"rate": 1.0} if name == "uap" else {}),
        }
    )
    crafting, others = batch.rows(range(len(batch) // 2)), batch.rows(range(len(batch) // 2, len(batch)))
    attack.craft(model, crafting)
    assert attack(model, crafting).success.all()
    assert attack(model, others).success.float().mean() >= 0.8
    deltas = attack(model, others).x_adv - others.x
    torch.testing.assert_close(deltas, deltas[:1].expand_as(deltas))  # one change for all


def test_one_perturbation_leads_samples_to_the_class_asked_for_beyond_the_exact_radius_and_never_inside_it():
    model, batch, weights, gaps = linear(classes=2, n=24)
    rows = (batch.y == 0).nonzero().squeeze(1)
    radii, batch = smallest(weights, gaps, batch.y, 2.0)[rows], batch.rows(rows)
    for eps, fools in ((1.02 * float(radii.max()), True), (0.98 * float(radii.min()), False)):
        goal = {"name": "target_class", "target": 1}
        attack = Attack.parse(
            {"name": "uap", "rate": 1.0, "goal": goal, "budget": {"name": "l2", "eps": eps}}
        )
        attack.craft(model, batch)
        success = attack(model, batch).success
        assert success.all() if fools else not success.any()


def test_one_perturbation_makes_most_unseen_digits_the_class_asked_for():
    model = limen.load_model("mlp")
    crafting, unseen = (
        next(limen.load_data("digits", split=split, batch_size=100, limit=100)) for split in ("train", "test")
    )
    unseen = unseen.rows((unseen.y != 3).nonzero().squeeze(1))
    attack = Attack.parse(
        {
            "name": "uap",
            "epochs": 2,
            "goal": {"name": "target_class", "target": 3},
            "budget": {"name": "l2", "eps": 2.5},
        }
    )
    attack.craft(model, crafting)
    assert not (model(unseen.x).argmax(1) == 3).any()
    assert attack(model, unseen).success.float().mean() > 0.6


def test_hill_climbing_takes_no_target_and_says_so():
    model, batch, radius = half()
    attack = Attack.parse(
        {
            "name": "uap_hc",
            "goal": {"name": "target_class", "target": 1},
            "budget": {"name": "l2", "eps": radius},
        }
    )
    with pytest.raises(UserError, match="supports no target"):
        attack.craft(model, batch)


def test_uap_stops_at_the_rate_asked_for_and_says_what_each_epoch_reached():
    model, batch, radius = half()
    attack = Attack.parse(
        {"name": "uap", "rate": 0.5, "epochs": 9, "budget": {"name": "l2", "eps": 1.02 * radius}}
    )
    attack.craft(model, batch)
    rates = attack.crafted["fooling_rate"]
    assert len(rates) == 1
    assert rates[0] >= 0.5


def test_the_order_of_the_samples_does_not_change_what_is_crafted():
    model, batch, radius = half()
    mixed = batch.rows(torch.randperm(len(batch), generator=torch.Generator().manual_seed(0)))
    shapes = []
    for b in (batch, mixed):
        attack = Attack.parse({"name": "uap", "at_once": 1, "budget": {"name": "l2", "eps": 0.7 * radius}})
        attack.craft(model, b)
        shapes.append(attack.crafted["perturbation"])
    torch.testing.assert_close(*shapes)


def test_any_attack_can_be_the_inner_one_but_a_universal_one():
    model, batch, radius = half()
    for inner in (
        {"name": "pgd", "steps": 5},
        {"name": "fgsm"},
        {"name": "cw_l2", "steps": 20, "search_steps": 3, "c_init": 1.0},
    ):
        attack = Attack.parse({"name": "uap", "inner": inner, "budget": {"name": "l2", "eps": 1.05 * radius}})
        attack.craft(model, batch)
        assert attack(model, batch).success.float().mean() >= 0.8
    attack = Attack.parse({"name": "uap", "inner": {"name": "uap"}, "budget": {"name": "l2", "eps": 1.0}})
    with pytest.raises(UserError, match="universal itself"):
        attack.craft(model, batch)
    with pytest.raises(UserError, match="pdg"):
        Attack.parse({"name": "uap", "inner": {"name": "pdg"}})


def test_hill_climbing_never_loses_a_fooled_sample_count():
    torch.manual_seed(0)
    model = Classifier(
        nn.Sequential(nn.Flatten(), nn.Linear(30, 20), nn.Tanh(), nn.Linear(20, 3)), "clip", list("abc")
    )
    x = torch.rand(40, 30) - 0.5
    with torch.no_grad():
        batch = Batch("clip", [str(i) for i in range(40)], x, model(x).argmax(1), torch.full((40,), 30))
    rates = []
    for epochs in (1, 2, 4):
        attack = Attack.parse(
            {"name": "uap_hc", "epochs": epochs, "at_once": 1, "budget": {"name": "l2", "eps": 0.5}}
        )
        attack.craft(model, batch)
        result = attack(model, batch)
        for c in batch.y.unique().tolist():
            rate = float(attack.crafted[f"fooling_rate_{c}"])
            assert rate == pytest.approx(
                float(result.success[batch.y == c].float().mean())
            )  # what it says is what it does
        rates.append(float(result.success.float().mean()))
        assert ((result.x_adv - x).norm(dim=1) <= 0.5 + 1e-5).all()
    assert rates == sorted(rates)
    assert rates[-1] > 0.2


def test_each_class_has_its_own_perturbation_and_a_missing_one_is_named():
    model, batch, _, _ = linear(classes=2, n=20)
    attack = Attack.parse({"name": "uap_hc", "budget": {"name": "l2", "eps": 0.5}})
    attack.craft(model, batch.rows((batch.y == 0).nonzero().squeeze(1)))
    with pytest.raises(UserError, match="no perturbation for class 1"):
        attack(model, batch)


def test_what_is_crafted_is_tensors_by_name():
    model, batch, radius = half()
    for name in ("uap", "uap_hc", "patch"):
        attack = Attack.parse({"name": name, "budget": {"name": "l2", "eps": radius}})
        attack.craft(model, batch)
        assert all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in attack.crafted.items())


def test_a_perturbation_is_laid_on_clips_of_any_length_as_loud_as_each_allows():
    model = Classifier(nn.Sequential(nn.AdaptiveAvgPool1d(6), nn.Linear(6, 2)), "clip", ["a", "b"])
    x = torch.rand(4, 50) - 0.5
    batch = Batch("clip", list("abcd"), x, torch.zeros(4, dtype=torch.long), torch.full((4,), 50))
    attack = Attack.parse(
        {"name": "uap", "inner": {"name": "fgsm"}, "budget": {"name": "snr", "snr_db": 20.0}}
    )
    attack.craft(model, batch)
    for length in (30, 50, 80):
        other = (torch.rand(3, length) - 0.5) * torch.tensor([[0.1], [0.5], [1.0]])
        result = attack(
            model,
            Batch("clip", list("efg"), other, torch.zeros(3, dtype=torch.long), torch.full((3,), length)),
        )
        delta = result.x_adv - other
        snr = 20 * (other.norm(dim=1) / delta.norm(dim=1)).log10()
        assert (snr >= 20 - 1e-3).all()
        if length == 50:
            torch.testing.assert_close(snr, torch.full((3,), 20.0), atol=0.5, rtol=0)
        assert (delta[:, 50:] == 0).all()


def test_an_uncrafted_universal_attack_says_what_to_do():
    model, batch, _ = half()
    with pytest.raises(UserError, match="craft"):
        Attack.parse({"name": "uap", "budget": {"name": "l2", "eps": 1.0}})(model, batch)
