"""Modules are tried on two samples before anything relies on them: what does not answer with finite logits
per class is refused."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

import limen
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.models.base.output_check import logit_columns

X = torch.linspace(0.1, 0.9, 6 * 64).view(6, 1, 8, 8)


class Module(nn.Module):
    """Ten logits, passed through `change`; x goes through `before` first."""

    def __init__(self, change=lambda z: z, before=lambda x: x, classes=10):
        super().__init__()
        self.linear, self.change, self.before, self.asked = nn.Linear(64, classes), change, before, 0

    def forward(self, x: Tensor) -> Tensor:
        self.asked += len(x)
        return self.change(self.linear(self.before(x).flatten(1)))


def fails_beyond_one(z: Tensor) -> Tensor:
    if len(z) > 1:
        raise ValueError("one at a time")
    return z


ANSWERS = {
    "a tuple": (lambda z: (z, z), "got tuple for two samples"),
    "a dict": (lambda z: {"logits": z}, "got dict for two samples"),
    "one number per sample": (lambda z: z[:, 0], r"got \(2,\), torch.float32"),
    "the first sample alone": (lambda z: z[:1], r"got \(1, 10\), torch.float32"),
    "whole numbers": (lambda z: z.argsort(1), r"got \(2, 10\), torch.int64"),
    "NaN": (lambda z: z * float("nan"), "finite logits"),
    "infinity": (lambda z: z / 0, "finite logits"),
    "an error for two samples": (
        fails_beyond_one,
        r"Module cannot take pictures of shape \(1, 8, 8\).*one at a time",
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "wrapped"])
@pytest.mark.parametrize("n", [1, 6])
def test_a_module_that_does_not_answer_with_logits_is_refused(answer, wrapped, n):
    change, words = ANSWERS[answer]
    net = Module(change)
    with pytest.raises(UserError, match=words):
        limen.attack(
            "fgsm",
            limen.load_model(net, classes=10) if wrapped else net,
            X[:n],
            torch.zeros(n).long(),
            budget="linf:0.1",
        )


@pytest.mark.parametrize(("columns", "declared"), [(5, 10), (10, 5), (10, 20)])
def test_a_module_has_as_many_logits_as_declared_classes(columns, declared):
    model = limen.load_model(Module(classes=columns), classes=declared)
    with pytest.raises(
        UserError, match=f"Module is declared with {declared} classes, but its logits have {columns} columns"
    ):
        limen.attack("fgsm", model, X, torch.zeros(6).long(), budget="linf:0.1")


INPUTS = {
    "normalisation of other channels": (
        X,
        {"mean": [0.5] * 2, "std": [0.5] * 2},
        r"cannot take pictures of shape \(1, 8, 8\)",
    ),
    "a shape it was not made for": (X[..., :7], {}, r"cannot take pictures of shape \(1, 8, 7\)"),
    "double precision": (X.double(), {}, r"weights are torch.float32 on cpu: pass x.float\(\)"),
}


@pytest.mark.parametrize("given", INPUTS)
def test_samples_that_the_module_does_not_take_are_refused(given):
    x, options, words = INPUTS[given]
    with pytest.raises(UserError, match=words):
        limen.attack(
            "fgsm",
            limen.load_model(Module(), classes=10, **options),
            x,
            torch.zeros(6).long(),
            budget="linf:0.1",
        )


@pytest.mark.parametrize(
    "change",
    [lambda x: x.sub_(0.5).div_(0.5), lambda x: x.clamp_(0, 1), lambda x: torch.relu_(x)],
    ids=["to other values", "to the same values", "as an activation"],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "wrapped"])
def test_a_module_that_changes_its_input_is_refused_and_the_samples_stay(change, wrapped):
    net, x = Module(before=change), X.clone()
    with pytest.raises(UserError, match="Module changes its input in place"):
        limen.attack("pgd", limen.load_model(net, classes=10) if wrapped else net, x, budget="linf:0.1")
    assert torch.equal(x, X)


def test_a_net_behind_a_defence_is_tried_too(monkeypatch, tmp_path):
    (tmp_path / "my_squeeze.py").write_text("def flat(x):\n    return x.flatten(1)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="Module behind its defence cannot take pictures"):
        limen.attack(
            "pgd",
            Module(before=lambda x: x[:, :, :, :8]),
            X,
            budget="linf:0.1",
            defense="bpda:my_squeeze:flat",
        )


def test_a_trial_leaves_modes_weights_and_random_streams_as_they_were():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 3)
    )
    net[1].eval()
    model = limen.load_model(net, classes=3)
    noisy = limen.load_model(Module(lambda z: z + torch.rand_like(z)), classes=10)
    before = (
        [m.training for m in net.modules()],
        {k: v.clone() for k, v in net.state_dict().items()},
        torch.get_rng_state(),
    )
    for one in (model, noisy):
        assert logit_columns(one, Batch("picture", list("abcdef"), X, []), "a net") == len(one.classes)
    assert [m.training for m in net.modules()] == before[0]
    assert all(torch.equal(v, before[1][k]) for k, v in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), before[2])


def test_a_model_is_tried_once_and_again_when_its_weights_or_the_samples_change():
    net, batch = Module(), Batch("picture", list("abcdef"), X, [])
    model = limen.load_model(net, classes=10)
    seen = []
    for factor, pictures in (
        (None, batch),
        (None, batch),
        (2.0, batch),
        (None, Batch("picture", ["a"], X[:1, :, :4], [])),
    ):
        if factor is not None:
            with torch.no_grad():
                net.linear.weight.mul_(factor)
        with nullcontext() if pictures is batch else pytest.raises(UserError, match="cannot take pictures"):
            logit_columns(model, pictures, "a net")
        seen.append(net.asked)
    assert seen == [2, 2, 4, 6]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["pgd", "fgsm", "mi_fgsm"])
def test_an_attack_that_never_got_a_gradient_says_so(name):
    blind = Module(lambda z: z.detach() + 0 * z)
    said = blind(X).argmax(1)
    with pytest.warns(UserWarning, match="searched blindly"):
        limen.attack(name, blind, X, said, budget="linf:0.1")
    limen.attack(name, Module(), X, budget="linf:0.1")  # an honest module: no warning
    limen.attack("square", blind, X, said, budget="linf:0.1", queries=5)  # asks for no gradients


@pytest.mark.parametrize("training", [True, False])
def test_wrapping_keeps_the_mode_of_every_layer(training):
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10)).train(training)
    net[1].train(not training)
    before = [m.training for m in net.modules()]
    for call in (
        lambda: limen.load_model(net, classes=10, mean=[0.5], std=[0.5], input_range="0..255"),
        lambda: limen.defend(limen.load_model(net, classes=10), "bit_depth:4"),
        lambda: limen.attack("pgd", net, X, budget="linf:0.1", steps=2),
    ):
        call()
        assert [m.training for m in net.modules()] == before
    assert limen.load_model(net, classes=10, mean=[0.5], std=[0.5]).training is training
