"""From Python: any torch module, tensors or tuples, budgets in three forms, defences, with the errors that
files get."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import limen
from limen.budgets.linf import Linf
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.options import Options


class Pixels(nn.Module):
    """Logits that are sums over the two halves of a picture: the left half says class 0, the right half class
    1."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        return self.scale * torch.stack([x[..., :4].flatten(1).sum(1), x[..., 4:].flatten(1).sum(1)], 1)


class Loudness(nn.Module):
    """Class 1 if the mean of a clip is positive."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-x.mean(1), x.mean(1)], 1)


def pictures() -> tuple[Tensor, Tensor]:
    x = torch.full((3, 1, 8, 8), 0.5)
    x[:2, ..., :4] += torch.tensor([0.01, 0.07])[:, None, None, None]
    x[2, ..., 4:] += 0.2
    return x, torch.tensor([0, 0, 1])


BUDGETS = [
    "linf:0.03",
    {"name": "linf", "eps": 0.03},
    limen.budgets.linf(0.03),
    limen.budgets.linf(eps=0.03),
    Linf(eps=0.03),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=["text", "dict", "value", "keyword", "options"])
def test_a_plain_module_tensors_and_a_budget_in_any_form_are_enough(budget):
    x, y = pictures()
    net = Pixels().train()
    result = limen.attack("pgd", net, x, y, budget=budget, steps=5)
    assert result.success.tolist() == [
        True,
        False,
        False,
    ]  # halves 0.01, 0.07 and 0.2 apart, each may move by 0.03
    assert float((result.x_adv - x).abs().amax()) <= 0.03 + 1e-7
    assert net.training, "the module leaves as it came"
    assert net.scale.grad is None


@pytest.mark.parametrize("samples", ["tuple", "list", "numpy"])
def test_samples_may_be_a_tuple_a_list_or_arrays(samples):
    x, y = pictures()
    given = {"tuple": (x, y), "list": [x, y.tolist()], "numpy": (x.numpy(), y.numpy())}[samples]
    assert limen.attack("pgd", Pixels(), given, budget="linf:0.03", steps=5).success.tolist() == [
        True,
        False,
        False,
    ]


def test_without_answers_the_attack_moves_away_from_what_the_model_says():
    x, y = pictures()
    result = limen.attack("pgd", Pixels(), x, budget="linf:0.03", steps=5)
    assert torch.equal(result.batch.y, y)
    assert result.success.tolist() == [True, False, False]


def test_a_defence_stands_between_the_attacker_and_the_model():
    x, y = pictures()
    result = limen.attack("pgd", Pixels(), x, y, budget="linf:0.03", steps=5, defense="bit_depth:1")
    blind = limen.attack(
        "pgd", Pixels(), x, y, budget="linf:0.03", steps=5, defense=["bit_depth:1"], attack_on_defense=False
    )
    behind = limen.defend(limen.load_model(Pixels().eval(), classes=2), "bit_depth:1")
    for one in (result, blind):
        assert torch.equal(one.adversarial, behind(one.x_adv)), "judged behind the defence"
    assert not torch.equal(result.calls.backward, blind.calls.backward), (
        "one searches behind the defence, the other before it"
    )


def test_measure_takes_the_result_or_the_changed_samples_alone():
    x, y = pictures()
    result = limen.attack("fgsm", Pixels(), x, y, budget="linf:0.03")
    for samples in (x, (x, y), result.batch):
        rows = limen.measure(samples, result)
        assert [row["success"] for row in rows] == [True, False, False]
        assert [row["correct"] for row in rows] == [0.0, 1.0, 1.0]
    alone = limen.measure(x, result.x_adv)
    assert [row["linf"] for row in alone] == [row["linf"] for row in rows]
    assert "correct" not in alone[0]


def test_clips_are_stored_with_sixteen_bits_unless_told_otherwise():
    x = torch.linspace(-0.001, 0.0012, 400)[None]
    stored = limen.attack("pgd", Loudness(), x, torch.tensor([1]), budget="linf:0.01", steps=3)
    assert torch.equal(stored.x_adv * 32768, (stored.x_adv * 32768).round())
    exact = limen.attack("pgd", Loudness(), x, torch.tensor([1]), budget="linf:0.01", steps=3, store="float")
    assert not torch.equal(exact.x_adv * 32768, (exact.x_adv * 32768).round())


def test_clips_of_different_lengths_keep_their_padding():
    x = torch.zeros(2, 300)
    x[0], x[1, :100] = 0.001, 0.001
    result = limen.attack("pgd", Loudness(), (x, [1, 1], [300, 100]), budget="linf:0.01", steps=3)
    assert result.success.all()
    assert not result.x_adv[1, 100:].any()


def test_a_clip_is_measured_at_the_rate_of_the_model_that_was_attacked():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 8000, generator=generator) * 0.1
    net = limen.load_model(Loudness(), kind="clip", classes=["low", "high"], rate_hz=8000)
    result = limen.attack("random_noise", net, (x, [0]), budget="snr:20")
    (row,) = limen.measure(x, result)
    (given,) = limen.measure(x, result.x_adv, rate_hz=8000)
    assert row["pesq"] == given["pesq"]
    (other,) = limen.measure(x, result.x_adv, rate_hz=16000)
    assert row["pesq"] != other["pesq"]
    with pytest.raises(UserError, match="rate_hz=16000"):
        limen.measure(x, result.x_adv)


def test_a_module_of_ones_own_gets_its_normalisation():
    x, _ = pictures()
    net = limen.load_model(Pixels().eval(), classes=2, mean=[0.5], std=[0.25])
    torch.testing.assert_close(net(x), Pixels().eval()((x - 0.5) / 0.25))
    assert net.training is False


def wrong(**changes):
    x, y = pictures()
    return {"name": "pgd", "model": Pixels(), "samples": x, "y": y, "budget": "linf:0.03", **changes}


class Pair(nn.Module):
    def forward(self, x):
        return x, x


MISTAKES = {
    "a number as budget": ({"budget": 0.03}, r'A budget is written .* or "dissimilarity:value"; got 0\.03'),
    "a budget without its value": ({"budget": "linf"}, 'the option "eps" is required'),
    "an unknown budget": ({"budget": "linv:0.03"}, 'Did you mean "linf"'),
    "a budget that is no number": ({"budget": "linf:wide"}, "eps: .*valid number"),
    "the options of something else": ({"budget": Options()}, "holds the options of no budget"),
    "no budget": ({"budget": None}, "needs a budget"),
    "an unknown attack": ({"name": "pdg"}, 'Did you mean "pgd"'),
    "an attack that is no name": ({"name": 3}, "An attack is named first"),
    "an unknown option": ({"step": 3}, 'Did you mean "steps"'),
    "a model that is a function": ({"model": lambda x: x}, "A model is one of Limen's"),
    "a model that answers in pairs": ({"model": Pair()}, r"must return .*logits .* got tuple"),
    "a model of other samples": (
        {"model": nn.Linear(3, 2)},
        r"Linear cannot take pictures of shape \(1, 8, 8\)",
    ),
    "8-bit pixels": ({"samples": torch.zeros(3, 1, 8, 8, dtype=torch.uint8)}, r"x\.float\(\) / 255"),
    "normalised pictures": ({"samples": torch.full((3, 1, 8, 8), 2.0)}, "must be in"),
    "a single picture": ({"samples": torch.zeros(1, 8, 8)}, r"x\[None\]"),
    "samples that are words": ({"samples": "pictures"}, "x must be a tensor or an array, got str"),
    "too few answers": ({"y": torch.tensor([0])}, "got 1 for 3 samples"),
    "answers as logits": ({"y": torch.zeros(3, 2)}, "one class index per sample"),
    "a class that there is not": (
        {"y": torch.tensor([0, 1, 2])},
        "class 2, but the model has only 2 classes",
    ),
    "a negative class": ({"y": torch.tensor([0, 1, -1])}, "class -1"),
    "an unknown form of storage": (
        {"store": "int8"},
        "Samples are stored as auto, float, int16, uint8; got 'int8'",
    ),
    "an unknown defence": ({"defense": "jpg"}, 'Did you mean "jpeg"'),
    "NaN": ({"samples": torch.full((3, 1, 8, 8), float("nan"))}, "must be finite"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_sentence(mistake):
    changes, message = MISTAKES[mistake]
    given = wrong(**changes)
    with pytest.raises(UserError, match=message):
        limen.attack(given.pop("name"), given.pop("model"), given.pop("samples"), given.pop("y"), **given)


def test_measuring_other_samples_than_those_attacked_is_refused():
    x, y = pictures()
    result = limen.attack("fgsm", Pixels(), x, y, budget="linf:0.03")
    with pytest.raises(UserError, match="not the ones that the result belongs to"):
        limen.measure(x.flip(0), result)


def test_a_shorthand_sets_the_one_option_that_a_component_needs():
    assert parse("budgets", "snr:30")[1].snr_db == 30
    assert parse("defenses", {"name": "bit_depth:3"})[1].bits == 3
    with pytest.raises(UserError, match=r'"pgd:40" is ambiguous|"pgd:value" is ambiguous'):
        parse("attacks", "pgd:40")


def test_an_experiment_file_takes_the_shorthand_too():
    from limen.attacks.engine.run import Attack

    assert Attack.parse({"name": "pgd", "budget": "linf:0.03"}).spec.budget[1].eps == 0.03


def test_arrays_of_double_precision_reach_a_model_of_double_precision():
    x, y = pictures()
    result = limen.attack(
        "pgd", Pixels().double(), x.numpy().astype(np.float64), y, budget="linf:0.03", steps=5
    )
    assert result.x_adv.dtype == torch.float64
    assert result.success.tolist() == [True, False, False]


def test_an_attack_computed_on_a_surrogate_is_judged_on_the_model_itself():
    batch = next(limen.load_data("digits", limit=4))
    spec = {"budget": "linf:0.2", "steps": 3, "early_stop": False, "random_start": False}
    own = limen.attack("pgd", "mlp", batch, **spec)
    transferred = limen.attack("pgd", "mlp", batch, surrogate={"models": [{"name": "cnn"}]}, **spec)
    on_cnn = limen.attack("pgd", "cnn", batch, **spec)
    assert not torch.equal(transferred.x_adv, own.x_adv)
    torch.testing.assert_close(transferred.x_adv, on_cnn.x_adv)
    with torch.no_grad():
        fresh = limen.load_model("mlp")(transferred.x_adv).argmax(1)
    assert torch.equal(transferred.reached, fresh != batch.y)
