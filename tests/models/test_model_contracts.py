"""What every model must keep: a batch gives what its members give alone, gradients reach x, two calls
agree."""

import pytest
import torch

from limen.core.types import BOUNDS, predictions
from limen.models.base.load import load_model

NAMES = [
    "cifar_resnet",
    "cnn",
    "ctc_small",
    "keyword_cnn",
    "lenet5",
    "mlp",
    "res8",
    "resnet14_cifar",
    "resnet14_mnist",
    "wake_word",
]


def loaded(name):
    return load_model({"name": name, "weights": "random"})


def samples(model, n):
    """n samples; clips of different lengths where the model takes any length."""
    g = torch.Generator().manual_seed(0)
    if model.kind == "picture":
        return torch.rand(n, *model.shape, generator=g), None
    x = torch.rand(n, 16000, generator=g) * 0.6 - 0.3
    lengths = torch.tensor([16000, 9000, 12345, 401][:n]) if model.shape is None else torch.full((n,), 16000)
    return x * (torch.arange(16000) < lengths[:, None]), lengths


def numbers(outputs):
    return outputs if isinstance(outputs, torch.Tensor) else outputs.nll(["a"] * len(outputs.frames))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_gives_what_its_members_give_alone(name):
    model = loaded(name)
    x, lengths = samples(model, 4)
    with torch.no_grad():
        together = numbers(model(x, lengths))
        if lengths is None:
            alone = [numbers(model(x[i : i + 1])) for i in range(4)]
        else:
            alone = [numbers(model(x[i : i + 1, :n])) for i, n in enumerate(lengths.tolist())]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_reaches_x_and_never_the_padding(name):
    model = loaded(name)
    x, lengths = samples(model, 3)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(numbers(model(x, lengths)).pow(2).sum(), x)
    assert torch.isfinite(gradient).all()
    assert (gradient.flatten(1).abs().amax(1) > 0).all()
    if model.shape is None:
        assert all((gradient[i, n:] == 0).all() for i, n in enumerate(lengths.tolist()))


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_finite_on_silence_and_on_black(name):
    model = loaded(name)
    x = torch.zeros_like(samples(model, 2)[0]).requires_grad_()
    (gradient,) = torch.autograd.grad(numbers(model(x)).pow(2).sum(), x)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_agree_and_answers_are_of_the_declared_kind(name):
    model = loaded(name)
    x, lengths = samples(model, 2)
    first, second = model(x, lengths), model(x, lengths)
    assert torch.equal(numbers(first), numbers(second))
    assert len(predictions(first)) == 2
    if model.output == "class":
        assert first.shape == (2, len(model.classes))


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_pictures_of_other_sizes_fit_by_option(name):
    model = load_model(
        {"name": name, "weights": "random", "in_channels": 3, "size": 32, "classes": ["cat", "dog"]}
    )
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 2)
    assert model.classes == ["cat", "dog"]
    assert BOUNDS[model.kind] == (0.0, 1.0)


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "efficientnet_lite0"])
def test_large_networks_answer(name):
    model = loaded(name)
    x = torch.rand(1, 3, 96, 96).requires_grad_()
    logits = model(x)
    assert logits.shape == (1, 1000)
    assert torch.autograd.grad(logits.pow(2).sum(), x)[0].abs().max() > 0
