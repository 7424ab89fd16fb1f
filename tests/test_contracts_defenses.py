"""What every defence keeps: the model's face, its mode, the range of its input, gradients for the attacker,
and per-sample truth."""

import pytest
import torch
from torch import Tensor, nn

from limen.core import components, seeds
from limen.core.errors import UserError
from limen.core.types import BOUNDS, GuardedOutputs, answers_of
from limen.defenses.base.compose import defended
from limen.defenses.base.defended import Defended
from limen.defenses.base.options import DefenseOptions
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


def plain(kind):
    return Classifier(
        Pooled() if kind == "picture" else Moments(),
        kind,
        list("wxyz"),
        rate_hz=RATE_HZ if kind == "clip" else None,
    )


def declared(name):
    return components.load("defenses", name).options


def spec(name):
    """The defence with the values that its options declare as their example."""
    return {"name": name, **declared(name).example}


def behind(name, model):
    """The model behind the defence and those it declares it must follow."""
    return defended(model, [*declared(name).example_after, spec(name)])


def logits(outputs):
    answers = answers_of(outputs)
    assert isinstance(answers, Tensor)
    return answers


def samples(kind):
    g = torch.Generator().manual_seed(3)
    if kind == "picture":
        return torch.rand(4, 3, 24, 20, generator=g), None
    lengths = torch.tensor([3000, 1700, 2500, 400])
    x = (0.4 * torch.randn(4, 3000, generator=g)).clamp(-1, 1)
    return x * (torch.arange(3000) < lengths[:, None]), lengths


EVERY = pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in components.names("defenses") for kind in declared(name).kinds]
)


@EVERY
def test_the_defended_model_shows_the_face_of_the_model(name, kind):
    model = plain(kind)
    after = behind(name, model)
    assert (after.kind, after.classes, after.rate_hz, after.shape, after.output) == (
        model.kind,
        model.classes,
        model.rate_hz,
        model.shape,
        "class",
    )
    x, lengths = samples(kind)
    outputs = after(x, lengths, seeds.generators(0, list("abcd")))
    assert isinstance(outputs, GuardedOutputs) == after.refuses
    assert logits(outputs).shape == (4, 4)


ONE_KIND = [name for name in components.names("defenses") if len(declared(name).kinds) == 1]


@pytest.mark.parametrize("name", components.names("defenses"))
def test_its_options_declare_what_it_protects(name):
    assert issubclass(declared(name), DefenseOptions)
    assert declared(name).kinds
    assert declared(name).outputs


@pytest.mark.parametrize("name", ONE_KIND)
def test_a_model_of_another_kind_is_refused_with_the_defences_that_fit(name):
    wrong = "clip" if declared(name).kinds == ("picture",) else "picture"
    with pytest.raises(UserError, match=f"The defense {name} is for models that take") as error:
        defended(Classifier(nn.Identity(), wrong, list("wxyz"), rate_hz=RATE_HZ), [spec(name)])
    proposed = str(error.value).partition("Use one of: ")[2].rstrip(".").split(", ")
    assert proposed == [one for one in components.names("defenses") if wrong in declared(one).kinds]


@EVERY
def test_a_batch_gives_what_its_members_give_alone(name, kind):
    model = behind(name, plain(kind))
    x, lengths = samples(kind)
    together = logits(model(x, lengths, seeds.generators(0, list("abcd"), "test")))
    for i, letter in enumerate("abcd"):
        one = x[i : i + 1] if lengths is None else x[i : i + 1, : lengths[i]]
        length = None if lengths is None else lengths[i : i + 1]
        alone = logits(model(one, length, seeds.generators(0, [letter], "test")))
        assert torch.allclose(alone[0], together[i], atol=1e-5), letter


@EVERY
def test_without_streams_the_answer_is_fixed_and_does_not_depend_on_the_place_in_the_batch(name, kind):
    model = behind(name, plain(kind))
    x, lengths = samples(kind)
    first = logits(model(x, lengths))
    turned = logits(model(x.flip(0), None if lengths is None else lengths.flip(0)))
    assert torch.equal(first, logits(model(x, lengths)))
    assert torch.allclose(first, turned.flip(0), atol=1e-5)


@EVERY
def test_a_defence_that_draws_says_so(name, kind):
    model = behind(name, plain(kind))
    x, lengths = samples(kind)
    first, second = (logits(model(x, lengths, seeds.generators(seed, list("abcd")))) for seed in (0, 1))
    same = torch.equal(first, second)
    assert same == (not model.random)


@EVERY
def test_the_gradient_reaches_every_sample(name, kind):
    model = behind(name, plain(kind))
    x, lengths = samples(kind)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        logits(model(leaf, lengths, seeds.generators(0, list("abcd"))))[:, 0].sum(), leaf
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
    behind(name, model)(extreme, lengths, seeds.generators(0, list("abcd")))
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
    after = behind(name, model)
    assert after.training == training
    with evaluating(after):
        logits(after(x.requires_grad_(), lengths, seeds.generators(0, list("abcd")))).sum().backward()
    assert all(m.training == training for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@EVERY
def test_double_precision_stays_double(name, kind):
    x, lengths = samples(kind)
    model = behind(name, plain(kind).double())
    outputs = model(x.double(), lengths, seeds.generators(0, list("abcd")))
    assert logits(outputs).dtype == torch.float64


@EVERY
def test_a_defended_model_can_be_defended_again(name, kind):
    model = behind(name, behind(name, plain(kind)))
    x, lengths = samples(kind)
    assert torch.isfinite(logits(model(x, lengths, seeds.generators(0, list("abcd"))))).all()


@EVERY
def test_votes_count_the_answers_of_as_many_calls_as_asked(name, kind):
    model = behind(name, plain(kind))
    x, lengths = samples(kind)
    counts = model.votes(x, 5, lengths, seeds.generators(0, list("abcd")))
    assert counts.shape == (4, 4)
    assert (counts.sum(1) == 5).all() or model.refuses
    if not model.random and not model.refuses:
        assert torch.equal(counts.argmax(1), logits(model(x, lengths)).argmax(1))


@EVERY
def test_a_list_of_defences_keeps_its_order(name, kind):
    model = defended(plain(kind), [*declared(name).example_after, spec(name), "bpda:torch:abs"])
    assert isinstance(model, Defended)
    parts = [type(m).__name__ for m in model.modules() if isinstance(m, Defended)]
    first = type(defended(plain(kind), [*declared(name).example_after, spec(name)])).__name__
    assert parts[0] == first
    assert parts[-1] == "Replaced"
