"""What every defence keeps: the model's face, its mode, the range of its input, gradients for the attacker,
and per-sample truth."""

import pytest
import torch
from torch import Tensor, nn

from limen.core import components, seeds
from limen.core.errors import UserError
from limen.core.types import BOUNDS
from limen.models.base.model import Classifier, evaluating

RATE_HZ = 16000


class Moments(nn.Module):
    """Clips of any length -> logits, through sums that padding does not change. Keeps what it saw."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 4)
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return self.linear(torch.stack([x.sum(1), x.square().sum(1), x.abs().sum(1)], 1) / 100)


class Pooled(nn.Module):
    """Pictures of any size -> logits."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
        )
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return self.network(x)


OPTIONS = {"bpda": {"transform": "torch:round"}}
"""Of defences that have options without a default."""


def plain(kind):
    return Classifier(
        Pooled() if kind == "picture" else Moments(),
        kind,
        list("wxyz"),
        rate_hz=RATE_HZ if kind == "clip" else None,
    )


def defended(name, model):
    component, options = components.parse("defenses", {"name": name, **OPTIONS.get(name, {})})
    return component.function(model, options)


def kinds_of(name):
    """What it defends: pictures, clips or both."""
    kinds = []
    for kind in ("picture", "clip"):
        try:
            defended(name, plain(kind))
        except UserError:
            continue
        kinds.append(kind)
    assert kinds, f"{name} defends neither pictures nor clips"
    return kinds


def samples(kind):
    g = torch.Generator().manual_seed(3)
    if kind == "picture":
        return torch.rand(4, 3, 24, 20, generator=g), None
    lengths = torch.tensor([3000, 1700, 2500, 400])
    x = (0.4 * torch.randn(4, 3000, generator=g)).clamp(-1, 1)
    return x * (torch.arange(3000) < lengths[:, None]), lengths


EVERY = pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in components.names("defenses") for kind in kinds_of(name)]
)


@EVERY
def test_the_defended_model_shows_the_face_of_the_model(name, kind):
    model = plain(kind)
    after = defended(name, model)
    assert (after.kind, after.classes, after.rate_hz, after.shape, after.output) == (
        model.kind,
        model.classes,
        model.rate_hz,
        model.shape,
        "class",
    )
    x, lengths = samples(kind)
    assert after(x, lengths, seeds.generators(0, list("abcd"))).shape == (4, 4)


@pytest.mark.parametrize("name", [name for name in components.names("defenses") if len(kinds_of(name)) == 1])
def test_it_is_for_one_kind_of_samples_and_says_so(name):
    wrong = "clip" if kinds_of(name) == ["picture"] else "picture"
    with pytest.raises(UserError, match=f"The defense {name} is for models that take"):
        defended(name, Classifier(nn.Identity(), wrong, list("wxyz"), rate_hz=RATE_HZ))


@EVERY
def test_a_batch_gives_what_its_members_give_alone(name, kind):
    model = defended(name, plain(kind))
    x, lengths = samples(kind)
    together = model(x, lengths, seeds.generators(0, list("abcd"), "test"))
    for i, letter in enumerate("abcd"):
        one = x[i : i + 1] if lengths is None else x[i : i + 1, : lengths[i]]
        alone = model(
            one, None if lengths is None else lengths[i : i + 1], seeds.generators(0, [letter], "test")
        )
        assert torch.allclose(alone[0], together[i], atol=1e-5), letter


@EVERY
def test_without_streams_the_answer_is_fixed_and_does_not_depend_on_the_place_in_the_batch(name, kind):
    model = defended(name, plain(kind))
    x, lengths = samples(kind)
    first, turned = model(x, lengths), model(x.flip(0), None if lengths is None else lengths.flip(0))
    assert torch.equal(first, model(x, lengths))
    assert torch.allclose(first, turned.flip(0), atol=1e-5)


@EVERY
def test_a_defence_that_draws_says_so(name, kind):
    model = defended(name, plain(kind))
    x, lengths = samples(kind)
    same = torch.equal(*(model(x, lengths, seeds.generators(seed, list("abcd"))) for seed in (0, 1)))
    assert same == (not model.random)


@EVERY
def test_the_gradient_reaches_every_sample(name, kind):
    model = defended(name, plain(kind))
    x, lengths = samples(kind)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        model(leaf, lengths, seeds.generators(0, list("abcd"))).logsumexp(1).sum(), leaf
    )
    assert torch.isfinite(gradient).all()
    assert (gradient.flatten(1).abs().amax(1) > 0).all()


@EVERY
def test_what_the_model_sees_has_its_shape_its_range_and_silent_padding(name, kind):
    model = plain(kind)
    x, lengths = samples(kind)
    extreme = x.clone()
    low, high = BOUNDS[model.kind]
    extreme[0] = torch.where(x[0] > x[0].mean(), high, low) * (x[0] != 0)
    defended(name, model)(extreme, lengths, seeds.generators(0, list("abcd")))
    seen = model.network.seen
    assert seen.shape == x.shape
    assert seen.dtype == x.dtype
    assert seen.min() >= low - 1e-6
    assert seen.max() <= high + 1e-6
    if lengths is not None:
        assert (seen[torch.arange(x.shape[1]) >= lengths[:, None]] == 0).all()


@EVERY
@pytest.mark.parametrize("training", [True, False])
def test_the_model_leaves_as_it_came(name, kind, training):
    model = plain(kind).train(training)
    x, lengths = samples(kind)
    before = [p.clone() for p in model.parameters()]
    after = defended(name, model)
    assert after.training == training
    with evaluating(after):
        after(x.requires_grad_(), lengths, seeds.generators(0, list("abcd"))).sum().backward()
    assert all(m.training == training for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@EVERY
def test_double_precision_stays_double(name, kind):
    x, lengths = samples(kind)
    model = defended(name, plain(kind).double())
    assert model(x.double(), lengths, seeds.generators(0, list("abcd"))).dtype == torch.float64


@EVERY
def test_a_defended_model_can_be_defended_again(name, kind):
    model = defended(name, defended(name, plain(kind)))
    x, lengths = samples(kind)
    assert torch.isfinite(model(x, lengths, seeds.generators(0, list("abcd")))).all()
