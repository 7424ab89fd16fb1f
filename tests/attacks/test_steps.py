"""PGD, FGSM and their kin: the options do what they say."""

import pytest
import torch
from exact import linear, run, smallest
from torch import nn

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack
from limen.attacks.pgd import PGD, pgd
from limen.budgets.families.balls import LinfBall
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model


def test_fooled_samples_leave_the_batch_and_the_others_go_on():
    model, batch, weights, gaps = linear(n=30)
    eps = float(smallest(weights, gaps, batch.y, 1.0).median())
    result = run(model, batch, name="pgd", steps=20, random_start=False, budget={"name": "linf", "eps": eps})
    assert result.success.any()
    assert not result.success.all()
    assert (result.calls.forward[~result.success] == 20).all()
    assert (result.calls.forward[result.success] <= 20).all()
    assert (result.calls.forward[result.success] < 20).any()


def test_a_restart_takes_up_only_what_is_left():
    model, batch, weights, gaps = linear(n=30)
    eps = float(smallest(weights, gaps, batch.y, 1.0).median())
    result = run(model, batch, name="pgd", steps=20, restarts=3, budget={"name": "linf", "eps": eps})
    assert (
        result.calls.forward[~result.success] == 21 + 21 + 20
    ).all()  # the last point of the last run is left to the judge


def test_without_early_stop_the_highest_loss_is_kept_of_points_that_reach_the_goal():
    class Sum(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def forward(self, x, lengths=None, generators=None):
            value = x.flatten(1).sum(1)
            return torch.stack([-value, value], 1)

    x = torch.tensor([[[[0.5, -0.4]]], [[[0.5, -0.6]]]])
    problem = Problem(
        Sum(),
        x,
        Goal(torch.tensor([1, 0]), False),
        LinfBall(torch.full((2,), 0.2)),
        [torch.Generator()] * 2,
        -1.0,
        1.0,
    )
    x_adv = pgd(problem, PGD(steps=10, early_stop=False, random_start=False))
    torch.testing.assert_close(x_adv, torch.tensor([[[[0.3, -0.6]]], [[[0.7, -0.4]]]]))
    assert (problem.calls.backward == 10).all()


def test_momentum_does_not_change_the_end_on_a_linear_model():
    model, batch, weights, gaps = linear(classes=2)
    eps = 0.5 * float(smallest(weights, gaps, batch.y, 1.0).min())
    budget = {"name": "linf", "eps": eps}
    plain, heavy = (run(model, batch, name="pgd", momentum=m, budget=budget).x_adv for m in (0.0, 0.9))
    torch.testing.assert_close(plain, heavy)


def test_fgsm_search_keeps_the_smallest_radius_that_works():
    model, batch, weights, gaps = linear(classes=2)
    exact = smallest(weights, gaps, batch.y, 1.0)
    result = run(model, batch, name="fgsm", search=1000, budget={"name": "linf", "eps": 1.0})
    assert result.success.all()
    sizes = (result.x_adv - batch.x).flatten(1).abs().amax(1)
    assert (sizes >= exact).all()
    assert (sizes <= exact + 0.001 + 1e-9).all()


def test_fgsm_search_starts_where_it_is_told():
    model, batch, _, _ = linear(classes=2)
    result = run(model, batch, name="fgsm", search=5, search_from=0.2, budget={"name": "linf", "eps": 0.5})
    sizes = (result.x_adv - batch.x).flatten(1).abs().amax(1)
    assert all(min(abs(s - k / 10) for k in range(1, 6)) < 1e-6 for s in sizes.tolist())


def test_mi_fgsm_is_exactly_its_recurrence():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    model = Classifier(network, "picture", list("abc"))
    x = torch.rand(4, 1, 2, 3, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0])
    ours = run(
        model,
        Batch("picture", list("abcd"), x, y),
        name="mi_fgsm",
        steps=5,
        decay=0.7,
        early_stop=False,
        budget={"name": "linf", "eps": 0.1},
    )
    x_t, g = x.clone(), torch.zeros_like(x)
    for _ in range(5):
        leaf = x_t.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(
            nn.functional.cross_entropy(network(leaf), y, reduction="sum"), leaf
        )
        g = 0.7 * g + gradient / gradient.abs().sum((1, 2, 3), keepdim=True)
        x_t = (x_t + 0.02 * g.sign()).clamp(x - 0.1, x + 0.1).clamp(0, 1)
    torch.testing.assert_close(ours.x_adv, x_t)


def test_random_noise_fills_the_budget_exactly():
    model, batch, _, _ = linear()
    for distribution in ("uniform", "gaussian", "sign"):
        for norm, p in (("linf", torch.inf), ("l2", 2.0), ("l1", 1.0)):
            result = run(
                model,
                batch,
                name="random_noise",
                distribution=distribution,
                budget={"name": norm, "eps": 0.3},
            )
            sizes = (result.x_adv - batch.x).flatten(1).norm(p=p, dim=1)
            torch.testing.assert_close(sizes, torch.full_like(sizes, 0.3))


def test_an_l0_step_is_exact_on_a_linear_model_of_two_classes():
    """The fewest pixels that suffice: the largest gains |w_i| * room, one after the other."""
    model, batch, weights, gaps = linear(classes=2, d=20)
    w = weights[1 - batch.y] - weights[batch.y]  # (n, d)
    x = batch.x.flatten(1)
    gains = (w.abs() * torch.where(w > 0, 1 - x, x)).sort(dim=1, descending=True).values.cumsum(1)
    needed = (gains <= gaps.amax(1, keepdim=True)).sum(1) + 1
    for count in range(1, int(needed.max()) + 1):
        for name in ("fgsm", "bim", "pgd"):
            success = run(model, batch, name=name, budget={"name": "l0", "count": count}).success
            assert not success[needed > count].any()
            if name == "fgsm":
                assert success[needed < count].all()


def test_a_sparse_step_passes_over_pixels_that_cannot_move():
    model, batch, _, _ = linear(classes=2)
    batch.x.copy_(torch.where(batch.x > 0.5, 1.0, 0.0))
    with torch.no_grad():
        batch.y.copy_(model(batch.x).argmax(1))
    result = run(model, batch, name="pgd", steps=60, random_start=False, budget={"name": "l1", "eps": 11.0})
    assert result.success.all()


def test_a_random_model_is_attacked_through_the_mean_of_its_draws():
    class Noisy(Model):
        kind, output, classes, random, draws = "picture", "class", ["a", "b"], True, 8

        def forward(self, x, lengths=None, generators=None):
            shift = torch.stack([torch.randn((), generator=g) for g in generators])
            value = x.flatten(1).sum(1) - 1 + shift * 0.1
            return torch.stack([value, -value], 1)

    x = torch.full((3, 1, 1, 2), 0.9)
    result = run(
        Noisy(),
        Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long)),
        name="pgd",
        steps=4,
        budget={"name": "linf", "eps": 0.8},
    )
    assert (result.calls.forward % 8 == 0).all()
    assert result.success.all()


def test_gradients_that_are_zero_or_not_finite_are_counted():
    class Flat(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def forward(self, x, lengths=None, generators=None):
            value = x.flatten(1).sum(1)
            return torch.stack([torch.where(value > 1, value * 0 + 1, value.sub(value).sqrt()), value * 0], 1)

    x = torch.stack([torch.full((1, 1, 2), 0.9), torch.full((1, 1, 2), 0.1)])
    result = run(
        Flat(),
        Batch("picture", ["a", "b"], x, torch.tensor([0, 1])),
        name="bim",
        early_stop=False,
        budget={"name": "linf", "eps": 0.1},
    )
    assert torch.equal(result.calls.dead, result.calls.backward)
    assert torch.isfinite(result.x_adv).all()


def test_samples_out_of_range_or_not_finite_are_refused_in_words():
    model, batch, _, _ = linear()
    with pytest.raises(UserError, match="already normalised"):
        run(
            model,
            Batch("picture", batch.ids, batch.x + 1, batch.y),
            name="fgsm",
            budget={"name": "linf", "eps": 0.1},
        )
    broken = batch.x.clone()
    broken[2, 0, 0, 0] = torch.nan
    with pytest.raises(UserError, match="s2"):
        run(
            model,
            Batch("picture", batch.ids, broken, batch.y),
            name="fgsm",
            budget={"name": "linf", "eps": 0.1},
        )


@pytest.mark.parametrize(("store", "steps"), [("uint8", 255), ("int16", 32768)])
def test_success_is_judged_on_the_file_format_asked_for(store, steps):
    model, batch, _, _ = linear(classes=2)
    attack = Attack.parse({"name": "deepfool", "overshoot": 1e-7})  # so close that rounding decides
    result = attack(model, batch, store=store)
    torch.testing.assert_close(result.x_adv * steps, (result.x_adv * steps).round())
    with torch.no_grad():
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != batch.y)
