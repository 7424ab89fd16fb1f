"""What every model must keep: a batch gives what its members give alone, gradients reach x, two calls
agree."""

import pytest
import torch

from limen.core.components import load, names, parse
from limen.core.seeds import generators
from limen.core.types import BOUNDS, OUTPUTS, Batch, predictions
from limen.models.base.load import load_model
from limen.models.training.checkpoint import save_weights
from limen.objectives.base.objective import objective_for

NAMES = [name for name in names("models") if load("models", name).options.small is not None]
LARGEST = 96
"""Height and width of pictures: those of ImageNet at full size would take minutes."""


def loaded(name):
    small = load("models", name).options.small
    return load_model({"name": name, "weights": "random", **small})


def samples(model, n):
    """n samples; clips of different lengths where the model takes any length."""
    g = torch.Generator().manual_seed(0)
    if model.kind == "picture":
        channels, height, width = model.shape
        return torch.rand(n, channels, min(height, LARGEST), min(width, LARGEST), generator=g), None
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


@pytest.mark.parametrize("name", names("models"))
def test_small_options_are_valid_and_a_model_without_them_needs_files_or_is_large(name):
    options = load("models", name).options
    if options.small is not None:
        parse("models", {"name": name, **options.example, **options.small})
    else:
        assert options.example or options.model_fields["weights"].default == "zoo"


@pytest.mark.parametrize("name", NAMES)
def test_weights_survive_saving_and_loading(name, tmp_path):
    model = loaded(name)
    save_weights(model, tmp_path / "weights.safetensors")
    small = load("models", name).options.small
    again = load_model(
        {"name": name, **small, "weights": str(tmp_path / "weights.safetensors"), "init_seed": 7}
    )
    x, lengths = samples(model, 2)
    with torch.no_grad():
        assert torch.equal(numbers(model(x, lengths)), numbers(again(x, lengths)))


@pytest.mark.parametrize("name", NAMES)
def test_a_model_declares_its_kind_and_output_and_trains_for_its_default_objective(name):
    model = loaded(name)
    assert model.kind in BOUNDS
    assert model.output in OUTPUTS
    assert (model.classes is not None) == (model.output == "class")
    x, lengths = samples(model, 2)
    y = torch.tensor([0, 1]) if model.output == "class" else ["a", "b"]
    ids = ["0", "1"]
    losses = objective_for(model)(model, Batch(model.kind, ids, x, y, lengths), generators(0, ids))
    assert losses.shape == (2,)
    losses.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert any(float(g.abs().max()) > 0 for g in gradients)
    assert all(bool(g.isfinite().all()) for g in gradients)
