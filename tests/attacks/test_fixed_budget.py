"""APGD, Nesterov and the least likely class: exact where the answer is known, exact in what they ask."""

import pytest
import torch
import torch.nn.functional as F
from exact import BALL, DUAL, curved, fooled, linear, run, smallest, some_wrong
from torch import nn

from limen.attacks.apgd import APGD, apgd
from limen.attacks.engine.problem import Problem
from limen.attacks.shared.losses import SOFTNESS, dlr, dlr_towards, soft
from limen.attacks.shared.sparse_steps import project_l1
from limen.budgets.families.balls import L1Ball, LinfBall
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model

NORM = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}


class Constant(Model):
    """Always the first of two classes, whatever it is shown; gradients are zero, or not numbers."""

    kind, output, classes = "picture", "class", ["a", "b"]

    def __init__(self, value: float = 0.0):
        super().__init__()
        self.value = value

    def forward(self, x, lengths=None, generators=None):
        flat = x.flatten(1).sum(1) * self.value
        return torch.stack([flat * 0 + 1, flat * 0], 1)


def test_the_difference_of_logits_ratio_is_its_formula():
    z = torch.tensor([[4.0, 1.0, 3.0, 0.5, 2.0]], dtype=torch.float64)
    away, onto = Goal(torch.tensor([0]), False), Goal(torch.tensor([4]), True)
    torch.testing.assert_close(dlr(z, away), torch.tensor([(3.0 - 4.0) / (4.0 - 2.0)], dtype=torch.float64))
    torch.testing.assert_close(
        dlr(z, onto), torch.tensor([(2.0 - 4.0) / (4.0 - (2.0 + 1.0) / 2)], dtype=torch.float64)
    )
    torch.testing.assert_close(
        dlr_towards(z, away, torch.tensor([1])),
        torch.tensor([(1.0 - 4.0) / (4.0 - (2.0 + 1.0) / 2)], dtype=torch.float64),
    )
    torch.testing.assert_close(dlr(5 * z - 3, away), dlr(z, away))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("rank", [1, -1])
def test_the_difference_of_logits_ratio_has_a_slope_whatever_the_number_of_classes(classes, rank):
    draw = torch.Generator().manual_seed(classes)
    z = torch.randn(5, classes, generator=draw, dtype=torch.float64, requires_grad=True)
    order = z.argsort(dim=1, descending=True)
    away, target = Goal(order[:, 0], False), order[:, rank]
    for value in (dlr(z, away), dlr(z, Goal(target, True)), dlr_towards(z, away, target)):
        (slope,) = torch.autograd.grad(value.sum(), z)
        assert (slope.abs().amax(1) > 1e-3).all()
        assert (value < 0).all()  # the goal is not reached


def test_the_soft_loss_is_the_margin_and_leads_the_same_way_whatever_the_scale_of_the_logits():
    z = torch.tensor(
        [[4.0, 1.0, 3.0, 0.5, 2.0], [1.0, 7.0, 2.0, 2.5, 0.0]], dtype=torch.float64, requires_grad=True
    )
    for goal in (Goal(torch.tensor([0, 1]), False), Goal(torch.tensor([4, 0]), True)):
        margin = goal.margin(z).detach()
        temperature = SOFTNESS * margin.abs()[:, None]
        others = (z.detach().scatter(1, goal.reference[:, None], -torch.inf) / temperature).softmax(1)
        towards = others.scatter(1, goal.reference[:, None], -1.0) * (-1 if goal.targeted else 1)
        for scale in (1.0, 1e6, 1e-6):
            values = soft(scale * z, goal)
            torch.testing.assert_close(values, scale * margin)
            (slope,) = torch.autograd.grad(values.sum(), z)
            torch.testing.assert_close(slope, scale * towards)
    boundary = torch.tensor([[2.0, 2.0, 1.0]], requires_grad=True)  # no margin to take a temperature from
    (slope,) = torch.autograd.grad(soft(boundary, Goal(torch.tensor([0]), False)).sum(), boundary)
    torch.testing.assert_close(slope, torch.tensor([[-1.0, 1.0, 0.0]]))


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_apgd_towards_every_class_is_exact_on_linear_models(norm):
    model, batch, weights, gaps = linear(n=8)
    exact = smallest(weights, gaps, batch.y, DUAL[norm])
    options = APGD(loss="dlr", targets=9, steps=60)
    assert fooled(apgd, options, model, batch, BALL[norm](1.01 * exact)).all()
    assert not fooled(apgd, options, model, batch, BALL[norm](0.99 * exact)).any()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("loss", ["soft", "ce", "dlr"])
def test_apgd_is_exact_for_two_classes_with_and_without_a_target(norm, loss):
    model, batch, weights, gaps = linear(classes=2, n=8)
    exact = smallest(weights, gaps, batch.y, DUAL[norm])
    options = APGD(loss=loss, steps=60)
    for goal in (Goal(batch.y, False), Goal(1 - batch.y, True)):
        assert fooled(apgd, options, model, batch, BALL[norm](1.01 * exact), goal).all()
        assert not fooled(apgd, options, model, batch, BALL[norm](0.99 * exact), goal).any()


@pytest.mark.parametrize("seed", range(12))
def test_apgd_takes_no_rounding_error_under_l1_for_a_changed_coordinate(seed):
    model, batch, weights, gaps = linear(classes=2, n=8, seed=seed)
    exact = smallest(weights, gaps, batch.y, DUAL["l1"])
    assert fooled(apgd, APGD(steps=60), model, batch, L1Ball(1.01 * exact), Goal(batch.y, False)).all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_apgd_reaches_a_target_by_the_shortest_way(norm):
    model, batch, weights, gaps = linear(classes=3, n=8)
    batch, gaps = batch.rows((batch.y != 2).nonzero().squeeze(1)), gaps[batch.y != 2]
    # of the points of the ball, where is the target furthest ahead of both others? At least as far as the
    # closest pair allows
    exact = (gaps[:, 2] - 0) / (weights[2] - weights[batch.y]).norm(p=DUAL[norm], dim=1)
    spec = {"name": "apgd", "loss": "dlr", "steps": 80, "goal": {"name": "target_class", "target": 2}}
    assert not run(
        model, batch, **spec, budget={"name": norm, "eps": 0.99 * float(exact.min())}
    ).success.any()
    assert run(model, batch, **spec, budget={"name": norm, "eps": 3 * float(exact.max())}).success.all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_apgd_is_exactly_its_recurrence(norm):
    model, batch = curved()
    eps, steps = 1e-4, 20  # so small that nothing is fooled
    ours = run(model, batch, name="apgd", loss="ce", steps=steps, budget={"name": norm, "eps": eps})
    assert not ours.success.any()
    assert (ours.calls.backward == steps).all()
    assert (ours.calls.forward == steps + 1).all()
    for i in range(len(batch)):
        expected = _apgd(model, batch.x[i : i + 1], batch.y[i : i + 1], norm, eps, steps)
        torch.testing.assert_close(ours.x_adv[i : i + 1], expected, atol=1e-9, rtol=0)


def _apgd(model, x, y, norm, eps, steps):
    """One picture, as the paper writes it."""

    def loss_and_gradient(at):
        leaf = at.detach().requires_grad_()
        value = F.cross_entropy(model(leaf), y)
        return value.item(), torch.autograd.grad(value, leaf)[0]

    def project(at):
        d = at - x
        d = d.clamp(-eps, eps) if norm == "linf" else d * min(1.0, eps / max(d.norm().item(), 1e-300))
        return (x + d).clamp(0, 1)

    eta, k, previous = 2 * eps, int(0.22 * steps), x
    value, gradient = loss_and_gradient(x)
    values, tops, halved, last = [value], [(value, x, gradient)], True, value
    check = k
    at = x
    for step in range(1, steps + 1):
        z = project(at + eta * (gradient.sign() if norm == "linf" else gradient / gradient.norm()))
        new = z if step == 1 else project(at + 0.75 * (z - at) + 0.25 * (at - previous))
        previous, at = at, new
        value, gradient = loss_and_gradient(at)
        values.append(value)
        tops.append(max(tops[-1], (value, at, gradient), key=lambda t: t[0]))
        if step == check and step < steps:
            rises = sum(values[j] > values[j - 1] for j in range(step - k + 1, step + 1))
            stalled = rises <= 0.75 * k or (not halved and tops[-1][0] <= last)
            halved, last = stalled, tops[-1][0]
            if stalled:
                eta, (_, at, gradient) = eta / 2, tops[-1]
            k = max(k - max(int(0.03 * steps), 1), max(int(0.06 * steps), 1))
            check += k
    return tops[-1][1]


def test_apgd_lets_fooled_samples_go_at_once_and_leaves_alone_what_is_wrong_already():
    model, batch, budget = some_wrong(30, wrong=5)
    result = run(model, batch, name="apgd", steps=20, budget=budget)
    assert torch.equal(result.x_adv[:5], batch.x[:5])
    assert (result.calls.forward[:5] == 0).all()
    assert (result.calls.forward[~result.reached] == 21).all()
    assert (result.calls.backward[~result.reached] == 20).all()
    assert (result.calls.forward[5:][result.reached[5:]] == 2).any()  # the first step suffices
    towards = run(model, batch, name="apgd", steps=20, targets=3, restarts=2, budget=budget)
    assert torch.equal(towards.x_adv[:5], batch.x[:5])
    assert (towards.calls.backward[:5] == 0).all()
    assert (towards.calls.forward[~towards.reached] == 1 + 3 * 2 * 21).all()


class Told(Model):
    """Answers in the order it was told, whatever it is shown, and remembers that."""

    kind, output, classes = "picture", "class", list("abc")

    def __init__(self, answers: list[list[float]]):
        super().__init__()
        self.answers, self.shown = answers, []

    def forward(self, x, lengths=None, generators=None):
        self.shown.append(x.detach().clone())
        slope = 1e-3 * (-1) ** len(self.shown) * x.flatten(1).sum(1, keepdim=True)  # there and back again
        return torch.tensor(self.answers[len(self.shown) - 1], dtype=x.dtype) + slope * torch.tensor(
            [1, 2, 3]
        )


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_apgd_keeps_a_point_that_fools_at_a_checkpoint_though_another_has_a_higher_loss(norm):
    nearly, fooled = [0.0, -0.1, -0.1], [0.0, 0.5, -9.0]  # the cross-entropy of the first is the higher one
    model, x = Told([nearly, nearly, fooled]), torch.full((1, 1, 4, 4), 0.5)
    goal, ball = Goal(torch.tensor([0]), False), BALL[norm](torch.tensor([0.1]))
    steps = 10 if norm == "linf" else 50  # the first checkpoint comes after two of them
    x_adv = apgd(Problem(model, x, goal, ball, [torch.Generator()], 0.0, 1.0), APGD(loss="ce", steps=steps))
    assert len(model.shown) == 3
    assert torch.equal(x_adv, model.shown[2])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize(
    "spec",
    [
        {"name": "apgd", "steps": 25, "random_start": True, "restarts": 2},
        {"name": "apgd", "steps": 25, "loss": "dlr", "targets": 2},
        {"name": "square", "queries": 150},
        {"name": "ni_fgsm"},
    ],
    ids=["apgd", "apgd towards", "square", "ni_fgsm"],
)
def test_nobody_leaves_budget_or_range_and_all_get_alone_what_they_get_together(spec, norm):
    model, batch = curved()
    batch.x[0].round_()  # values at the ends of the range
    budget = {"name": norm, "eps": {"linf": 0.02, "l2": 0.2, "l1": 1.0}[norm]}
    result = run(model, batch, **spec, budget=budget)
    assert ((result.x_adv - batch.x).flatten(1).norm(p=NORM[norm], dim=1) <= budget["eps"] * (1 + 1e-9)).all()
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1
    with torch.no_grad():
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != batch.y)
    for rows in ([0, 1], [3], [5, 2, 4]):
        part = run(model, batch.rows(rows), **spec, budget=budget)
        torch.testing.assert_close(part.x_adv, result.x_adv[rows], atol=1e-9, rtol=0)
        assert torch.equal(part.calls.forward, result.calls.forward[rows])


def test_the_projection_onto_l1_ball_and_range_is_the_nearest_point():
    draw = torch.Generator().manual_seed(0)
    x = (
        torch.rand(40, 1, 1, 300, generator=draw, dtype=torch.float64).mul_(1.2).sub_(0.1).clamp_(0, 1)
    )  # some at the ends of the range
    radius = torch.rand(40, generator=draw, dtype=torch.float64) * 3 + 0.1
    radius[:3] = 1000.0  # only the range binds
    radius[3] = 0.0
    point = x + torch.randn(x.shape, generator=draw, dtype=torch.float64)
    point[4:6] += torch.logspace(-9, 4, 300, dtype=torch.float64)  # sizes of all orders
    problem = Problem(
        Constant(), x, Goal(torch.zeros(40, dtype=torch.long), False), L1Ball(radius), [], 0.0, 1.0
    )
    ours = project_l1(problem, point) - x
    low, high = torch.zeros(40, 1, dtype=torch.float64), torch.full((40, 1), 2e4, dtype=torch.float64)
    wanted = (point - x).flatten(1)
    room = ((point.clamp(0, 1)) - x).flatten(1).abs()

    def at(theta):
        return wanted.sign() * (wanted.abs() - theta).clamp_min(0).minimum(room)

    for _ in range(100):
        middle = (low + high) / 2
        over = at(middle).abs().sum(1, keepdim=True) > radius[:, None]
        low, high = torch.where(over, middle, low), torch.where(over, high, middle)
    torch.testing.assert_close(ours.flatten(1), at(high), atol=1e-12, rtol=0)


@pytest.mark.parametrize("loss", ["soft", "dlr"])
def test_apgd_does_not_saturate_unless_it_raises_the_cross_entropy(loss):
    model, batch, weights, gaps = linear(classes=3)
    loud = Classifier(nn.Sequential(model.network, Times(1e6)), "picture", model.classes)
    eps = 3 * float(smallest(weights, gaps, batch.y, 1.0).max())
    assert run(loud, batch, name="apgd", loss=loss, budget={"name": "linf", "eps": eps}).success.all()


class Times(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


@pytest.mark.parametrize("value", [0.0, torch.inf])
@pytest.mark.parametrize("loss", ["soft", "ce", "dlr"])
def test_apgd_survives_gradients_that_are_zero_or_not_numbers(value, loss):
    x = torch.rand(3, 1, 2, 2)
    batch = Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long))
    for norm in ("linf", "l2", "l1"):
        result = run(
            Constant(value), batch, name="apgd", steps=5, loss=loss, budget={"name": norm, "eps": 0.1}
        )
        assert torch.isfinite(result.x_adv).all()
        assert (result.calls.dead == result.calls.backward).all()


def test_where_the_clean_gradient_is_zero_apgd_goes_on_from_a_random_point():
    class Valley(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def forward(self, x, lengths=None, generators=None):
            far = (x - 0.5).flatten(1).square().sum(1)
            return torch.stack([0.9 * far.new_full((len(x),), 0.04), far], 1)

    batch = Batch("picture", ["a"], torch.full((1, 1, 2, 2), 0.5), torch.zeros(1, dtype=torch.long))
    result = run(Valley(), batch, name="apgd", steps=10, budget={"name": "linf", "eps": 0.1})
    assert result.success.all()


def test_apgd_on_a_random_model_goes_on_to_the_end_and_keeps_the_best_point():
    class Noisy(Model):
        kind, output, classes, random, draws = "picture", "class", ["a", "b"], True, 4

        def forward(self, x, lengths=None, generators=None):
            value = (
                x.flatten(1).sum(1)
                - 1
                + 0.3 * torch.stack([torch.randn((), generator=g) for g in generators])
            )
            return torch.stack([value, -value], 1)

    batch = Batch("picture", list("abc"), torch.full((3, 1, 1, 2), 0.9), torch.zeros(3, dtype=torch.long))
    result = run(Noisy(), batch, name="apgd", steps=6, budget={"name": "linf", "eps": 0.8})
    assert (result.calls.backward == 6 * 4).all()
    assert (result.calls.forward == 7 * 4).all()
    torch.testing.assert_close(result.x_adv, torch.full_like(batch.x, 0.1))


def test_apgd_with_ratios_or_targets_refuses_recognisers_and_several_models():
    class Heard(Model):
        kind, output, rate_hz = "clip", "transcript", 16_000

    problem = Problem(
        Heard(),
        torch.zeros(1, 8),
        Goal(["a"], False),
        LinfBall(torch.ones(1)),
        [torch.Generator()],
        -1.0,
        1.0,
    )
    for options in (APGD(loss="dlr"), APGD(targets=2)):
        with pytest.raises(UserError, match="needs one classifier"):
            apgd(problem, options)


def test_ni_fgsm_is_exactly_its_recurrence():
    model, batch = curved()
    ours = run(
        model,
        batch,
        name="ni_fgsm",
        steps=5,
        decay=0.7,
        early_stop=False,
        budget={"name": "linf", "eps": 0.1},
    )
    x, x_t, g = batch.x, batch.x.clone(), torch.zeros_like(batch.x)
    allowed = lambda at: at.clamp(x - 0.1, x + 0.1).clamp(0, 1)
    for _ in range(5):
        leaf = allowed(x_t + 0.02 * 0.7 * g).requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(leaf), batch.y, reduction="sum"), leaf)
        g = 0.7 * g + gradient / gradient.abs().mean((1, 2, 3), keepdim=True)
        x_t = allowed(x_t + 0.02 * g.sign())
    torch.testing.assert_close(ours.x_adv, x_t)


def test_ni_fgsm_returns_the_point_that_its_gradient_pass_saw_fooled():
    model, batch, weights, gaps = linear(n=30)
    eps = 2 * float(smallest(weights, gaps, batch.y, 1.0).median())
    batch.y[:3] = (batch.y[:3] + 1) % 4
    result = run(model, batch, name="ni_fgsm", budget={"name": "linf", "eps": eps})
    early = result.calls.backward < 10
    assert early[:3].all()
    assert early.sum() > 10
    assert result.reached[early].all()
    assert torch.equal(result.x_adv[:3], batch.x[:3])


def test_bim_onto_the_least_likely_class_is_the_iterative_least_likely_class_method():
    model, batch, _, gaps = linear(n=10)
    budget = {"name": "linf", "eps": 0.4}
    result = run(model, batch, name="bim", goal="least_likely", budget=budget)
    assert torch.equal(result.goal.target, gaps.argmax(1))  # the class of the lowest logit
    again = run(
        model, batch, name="bim", goal={"name": "target_class", "target": "least_likely"}, budget=budget
    )
    assert torch.equal(result.x_adv, again.x_adv)
    assert result.success.any()
    assert torch.equal(result.success, result.adversarial.argmax(1) == result.goal.target)
