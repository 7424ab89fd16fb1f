"""Training objectives: each equals its formula where that is known exactly."""

import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from limen.attacks.engine.run import Attack
from limen.core.components import load, names, parse
from limen.core.errors import UserError
from limen.core.seeds import generators, normal_like
from limen.core.types import OUTPUTS, Batch, Values
from limen.models.base.load import load_model
from limen.models.base.model import Classifier, Model
from limen.objectives.adversarial import attacked
from limen.objectives.base.objective import objective_for
from limen.objectives.trades import Trades, divergence, farthest

IDS = ["a", "b", "c", "d", "e"]


def linear(weights=((1.0, -2.0, 0.5, 0.0), (-0.5, 1.0, 0.0, 2.0)), dropout=0.0):
    """A linear classifier of pictures of four pixels."""
    layer = nn.Linear(4, len(weights))
    layer.weight.data, layer.bias.data = torch.tensor(weights), torch.zeros(len(weights))
    network = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), layer)
    return Classifier(network, "picture", [str(i) for i in range(len(weights))], shape=(1, 2, 2))


def batch(seed=0):
    """Pictures that stay inside [0, 1] when they change by 0.2."""
    x = 0.3 + 0.4 * torch.rand(5, 1, 2, 2, generator=torch.Generator().manual_seed(seed))
    return Batch("picture", IDS, x, torch.tensor([0, 1, 0, 1, 1]))


def losses(spec, model, samples=None, seed=0):
    samples = samples or batch()
    return objective_for(model, spec)(model, samples, generators(seed, samples.ids))


def test_cross_entropy_is_minus_the_log_probability_of_the_true_class():
    model, samples = linear(), batch()
    log_p = model(samples.x).log_softmax(1)
    expected = -log_p.gather(1, samples.y[:, None]).squeeze(1)
    torch.testing.assert_close(losses("cross_entropy", model), expected)


def test_label_smoothing_spreads_a_share_of_the_truth_over_all_classes():
    model, samples = linear(), batch()
    log_p = model(samples.x).log_softmax(1)
    expected = -0.8 * log_p.gather(1, samples.y[:, None]).squeeze(1) - 0.2 * log_p.mean(1)
    torch.testing.assert_close(losses({"name": "cross_entropy", "label_smoothing": 0.2}, model), expected)


PGD = {"name": "pgd", "steps": 3, "early_stop": False, "budget": {"name": "linf", "eps": 0.1}}


def test_adversarial_training_takes_the_loss_at_the_point_of_its_attack():
    model, samples = linear(), batch()
    x_adv = attacked(model, samples, generators(0, IDS), Attack.parse(PGD))
    found = losses({"name": "adversarial", "attack": PGD}, model)
    assert torch.equal(found, losses("cross_entropy", model, replace(samples, x=x_adv)))


def test_adversarial_training_on_a_linear_model_is_at_the_worst_corner_of_the_ball():
    model, samples = linear(), batch()
    w = model.network[2].weight
    away = (w[1 - samples.y] - w[samples.y]).sign().view_as(samples.x)  # raises the loss the most
    expected = losses("cross_entropy", model, replace(samples, x=samples.x + 0.1 * away))
    torch.testing.assert_close(losses({"name": "adversarial", "attack": PGD}, model), expected)


def test_a_share_of_adversarial_training_may_be_clean():
    model = linear()
    mixed = losses({"name": "adversarial", "attack": PGD, "clean_share": 0.25}, model)
    both = 0.25 * losses("cross_entropy", model) + 0.75 * losses(
        {"name": "adversarial", "attack": PGD}, model
    )
    torch.testing.assert_close(mixed, both)


def test_the_attack_of_a_training_sees_no_dropout_and_the_step_does():
    model, samples = linear(dropout=0.5).train(), batch()
    x_adv = attacked(model, samples, generators(0, IDS), Attack.parse(PGD))
    assert torch.equal(x_adv, attacked(linear(), samples, generators(0, IDS), Attack.parse(PGD)))
    assert all(module.training for module in model.modules())
    assert not torch.equal(*(losses({"name": "adversarial", "attack": PGD}, model) for _ in range(2)))


def test_what_a_sample_is_attacked_with_depends_on_its_own_stream_alone():
    model, samples = linear(), batch()
    spec = {**PGD, "steps": 1, "step_size": 0.3}
    together = attacked(model, samples, generators(4, IDS), Attack.parse(spec))
    for i, name in enumerate(IDS):
        alone = attacked(model, samples.rows([i]), generators(4, [name]), Attack.parse(spec))
        assert torch.equal(alone[0], together[i])


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ({"name": "uap", "budget": {"name": "linf", "eps": 0.1}}, "universal"),
        ({"name": "pgdd"}, 'Did you mean "pgd"'),
        ({**PGD, "surrogate": {"models": [{"name": "mlp"}]}}, "leave out surrogate"),
    ],
)
def test_an_attack_that_cannot_be_trained_on_is_refused_when_the_options_are_read(attack, message):
    with pytest.raises(UserError, match=message):
        objective_for(linear(), {"name": "adversarial", "attack": attack})


def test_trades_of_a_linear_model_is_its_closed_form():
    """With two classes the divergence depends on the margin m = (w1 - w0) x alone and is convex in it, so its
    maximum over the ball is at the end towards which the start noise leads: m + s eps |w1 - w0|_1."""
    model, samples = linear(), batch()
    w = model.network[2].weight
    slope = (w[1] - w[0]).flatten()
    noise = normal_like(samples.x, generators(0, IDS)).flatten(1)
    margin = samples.x.flatten(1) @ slope
    worst = margin + (noise @ slope).sign() * 0.1 * slope.abs().sum()
    as_logits = lambda m: torch.stack([torch.zeros_like(m), m], 1)
    expected = F.cross_entropy(as_logits(margin), samples.y, reduction="none") + 3 * divergence(
        as_logits(margin), as_logits(worst)
    )
    spec = {"name": "trades", "beta": 3, "eps": 0.1}
    torch.testing.assert_close(losses(spec, model), expected, rtol=1e-4, atol=1e-5)


def test_trades_without_its_weight_is_cross_entropy():
    model = linear()
    assert torch.equal(
        losses({"name": "trades", "beta": 0, "eps": 0.1}, model), losses("cross_entropy", model)
    )


def test_the_divergence_of_two_coins_is_the_known_one():
    p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert divergence(p, q).item() == pytest.approx(0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75))
    assert divergence(p, p).item() == pytest.approx(0, abs=1e-7)


def test_the_inner_search_of_trades_stays_in_its_ball_and_in_the_natural_range_and_off_the_padding():
    g = torch.Generator().manual_seed(0)
    x, lengths = torch.rand(2, 8, generator=g) * 2 - 1, torch.tensor([8, 5])
    x[1, 5:] = 0
    model = Classifier(nn.Linear(8, 3), "clip", ["a", "b", "c"])
    samples = Batch("clip", ["a", "b"], x, torch.tensor([0, 1]), lengths)
    x_adv = farthest(model, samples, generators(0, ["a", "b"]), Trades(eps=0.2, steps=4))
    assert 0.1 < (x_adv - x).abs().max() <= 0.2 + 1e-6
    assert x_adv.abs().max() <= 1
    assert (x_adv[1, 5:] == 0).all()


def test_distillation_is_zero_for_a_student_that_equals_its_teacher():
    teacher = {"name": "mlp", "weights": "random", "init_seed": 3}
    x = torch.rand(3, 1, 8, 8)
    samples = Batch("picture", ["a", "b", "c"], x, torch.tensor([1, 2, 3]))
    spec = {"name": "distillation", "teacher": teacher}
    torch.testing.assert_close(losses(spec, load_model(teacher), samples), torch.zeros(3), atol=1e-5, rtol=0)
    other = load_model({**teacher, "init_seed": 4})
    assert (losses(spec, other, samples) > 1e-4).all()


def test_distillation_at_a_temperature_is_its_formula_and_trains_the_student_alone():
    teacher_spec = {"name": "mlp", "weights": "random", "init_seed": 3}
    student, teacher = load_model({**teacher_spec, "init_seed": 4}), load_model(teacher_spec)
    x = torch.rand(3, 1, 8, 8)
    samples = Batch("picture", ["a", "b", "c"], x, torch.tensor([1, 2, 3]))
    spec = {"name": "distillation", "teacher": teacher_spec, "temperature": 5, "label_share": 0.1}
    soft = 25 * divergence(teacher(x) / 5, student(x) / 5)
    hard = F.cross_entropy(student(x), samples.y, reduction="none")
    found = losses(spec, student, samples)
    torch.testing.assert_close(found, 0.9 * soft + 0.1 * hard, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    assert all(p.grad is not None for p in student.parameters())


def test_a_teacher_of_other_classes_is_refused():
    samples = Batch("picture", ["a"], torch.rand(1, 1, 8, 8), torch.tensor([1]))
    spec = {"name": "distillation", "teacher": {"name": "mlp", "weights": "random", "classes": 3}}
    with pytest.raises(UserError, match="student's classes"):
        losses(spec, load_model({"name": "mlp", "weights": "random"}), samples)


class Quieter(Model):
    """A signal: the clip times a learned factor."""

    kind, output = "clip", "signal"

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, lengths=None, generators=None):
        return Values("signal", self.factor * x, lengths)


@pytest.mark.parametrize(("distance", "expected"), [("l1", [0.25, 0.5]), ("l2", [0.0625, 0.25])])
def test_enhancement_is_the_mean_difference_from_the_true_signal_without_padding(distance, expected):
    x = torch.tensor([[0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0]])
    samples = Batch("clip", ["a", "b"], x, x.clone(), torch.tensor([4, 2]), torch.tensor([4, 2]))
    found = losses({"name": "enhancement", "distance": distance}, Quieter(), samples)
    torch.testing.assert_close(found, torch.tensor(expected))


DEFAULTS = {
    "class": "cross_entropy",
    "transcript": "transcript",
    "embedding": "self_supervised",
    "signal": "enhancement",
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_has_at_most_one_default_objective(output):
    declared = [
        name for name in names("objectives") if output in load("objectives", name).options.default_for
    ]
    assert declared == ([DEFAULTS[output]] if output in DEFAULTS else [])


@pytest.mark.parametrize("name", names("objectives"))
def test_an_objective_declares_what_it_trains_and_its_spec_is_plain_data(name):
    _, options = parse("objectives", {"name": name, **load("objectives", name).options.example})
    assert options.outputs
    assert set(options.default_for) <= set(options.outputs)
    assert set(options.outputs) <= set(OUTPUTS)
    model = Model()
    model.output = options.outputs[0]
    spec = objective_for(model, {"name": name, **options.example}).spec
    assert json.loads(json.dumps(spec)) == spec
    assert objective_for(model, spec).spec == spec


@pytest.mark.parametrize(
    "name", [n for n in names("objectives") if "class" in load("objectives", n).options.outputs]
)
def test_an_objective_of_classifiers_gives_a_finite_loss_per_sample_that_reaches_the_weights(name):
    model = load_model({"name": "mlp", "weights": "random"})
    samples = Batch("picture", ["a", "b"], torch.rand(2, 1, 8, 8), torch.tensor([1, 2]))
    found = losses({"name": name, **load("objectives", name).options.example}, model, samples)
    assert found.shape == (2,)
    assert torch.isfinite(found).all()
    found.sum().backward()
    assert any(float(p.grad.abs().max()) > 0 for p in model.parameters())


def test_an_objective_that_cannot_train_the_model_is_refused_with_those_that_can():
    with pytest.raises(UserError, match=r"this model's is a class\. .*cross_entropy"):
        objective_for(linear(), "enhancement")
    model = Model()
    model.output = "distance"
    with pytest.raises(UserError, match="no default"):
        objective_for(model)
