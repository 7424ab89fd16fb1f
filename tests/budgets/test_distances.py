"""Bounded distances on problems whose answer is known: a Euclidean distance, one that does not grow along a
line, one that is never met."""

import pytest
import torch
from torch import Tensor, nn

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.storage import stored
from limen.attacks.pgd import PGD, pgd
from limen.budgets.families.balls import L2Ball
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.distances import TOLERANCE, BoundedDistance
from limen.core import seeds
from limen.core.components import load
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier
from limen.perception import similarity


def euclidean(x: Tensor, x_adv: Tensor, lengths: Tensor | None) -> Tensor:
    return (x_adv - x).flatten(1).norm(dim=1)


def budget(
    x: Tensor, bound: float, measure=euclidean, low: float = -10.0, high: float = 10.0
) -> BoundedDistance:
    return BoundedDistance(x.new_full((len(x),), bound), x, measure, low, high)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_under_the_euclidean_distance_projection_fill_and_step_are_those_of_the_l2_ball():
    x, delta = drawn(4, 12), drawn(4, 12, seed=1) * torch.tensor([[0.01], [0.5], [2.0], [9.0]])
    bounded, ball = budget(x, 1.5, low=-100.0, high=100.0), L2Ball(x.new_full((4,), 1.5))
    near = {"rtol": 2 * TOLERANCE, "atol": 1e-12}
    torch.testing.assert_close(bounded.project(delta), ball.project(delta), **near)
    torch.testing.assert_close(bounded.fill(delta), ball.fill(delta), **near)
    size = torch.tensor([0.1, 0.5, 1.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(bounded.step(delta, size), ball.step(delta, size), **near)


def test_a_projection_meets_the_bound_from_inside_to_the_stated_tolerance():
    x, delta = drawn(50, 8), drawn(50, 8, seed=1) * 10
    weights = torch.linspace(0.1, 3, 8, dtype=torch.float64)
    bounded = budget(x, 0.7, lambda x, y, _: ((y - x) * weights).square().sum(1), -100.0, 100.0)
    size = bounded.norm(bounded.project(delta))
    assert (size <= 0.7).all()
    assert (size >= (1 - TOLERANCE) * 0.7).all()


def test_a_distance_that_falls_again_along_a_line_is_kept_too():
    x = torch.zeros(20, 3, dtype=torch.float64)
    bounded = budget(x, 0.3, lambda x, y, _: (4 * (y - x).flatten(1).norm(dim=1)).sin().square())
    for seed in range(5):
        delta = drawn(20, 3, seed=seed) * 3
        for change in (
            bounded.project(delta),
            bounded.fill(delta),
            bounded.start(x, seeds.generators(0, [str(i) for i in range(20)])),
        ):
            assert (bounded.norm(change) <= 0.3).all()


def test_a_bound_that_is_never_met_leaves_the_change_at_the_ends_of_the_range():
    x = torch.full((2, 5), 0.5, dtype=torch.float64)
    bounded = budget(x, 100.0, low=0.0, high=1.0)
    delta = torch.tensor([[1.0, -1.0, 0.5, -0.25, 0.0], [0.0] * 5], dtype=torch.float64)
    expected = torch.tensor([[0.5, -0.5, 0.5, -0.5, 0.0], [0.0] * 5], dtype=torch.float64)
    torch.testing.assert_close(bounded.fill(delta), expected)


def test_the_range_is_kept_before_the_distance_is_measured():
    """Clipping afterwards could bring a point outside: here the distance is that from the mean change."""
    x = torch.tensor([[0.0, 0.5, 1.0]], dtype=torch.float64)
    uneven = lambda x, y, _: (y - x - (y - x).mean(1, keepdim=True)).norm(dim=1)
    bounded = budget(x, 0.2, uneven, 0.0, 1.0)
    delta = torch.full((1, 3), 0.4, dtype=torch.float64)  # distance 0, but the last value cannot follow
    change = bounded.project(delta)
    assert float((x + change).max()) <= 1
    assert (1 - TOLERANCE) * 0.2 <= float(bounded.norm(change)) <= 0.2


def test_the_distance_has_a_gradient_for_attacks_that_weigh_it():
    x, delta = drawn(2, 6), drawn(2, 6, seed=1)
    leaf = (x + delta).requires_grad_()
    (slope,) = torch.autograd.grad(budget(x, 1.0).distance(leaf).sum(), leaf)
    torch.testing.assert_close(slope, delta / delta.norm(dim=1, keepdim=True))


def test_pgd_succeeds_just_outside_the_exact_radius_and_never_inside():
    w = drawn(16)
    layer = nn.Linear(16, 2).double()
    layer.weight.data, layer.bias.data = torch.stack([-w, w]) / 2, torch.zeros(2, dtype=torch.float64)
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    x = torch.full((3, 16), 0.5, dtype=torch.float64)
    x -= ((x @ w + 0.05) / w.dot(w))[:, None] * w
    x = x.view(3, 1, 4, 4)
    exact = 0.05 / float(w.norm())
    goal = Goal(torch.zeros(3, dtype=torch.long), False)
    for share, reached in ((1.02, True), (0.99, False)):
        bounded = budget(x, share * exact, low=0.0, high=1.0)
        posed = Problem(model, x, goal, bounded, seeds.generators(0, list("abc")), 0.0, 1.0)
        x_adv = pgd(posed, PGD(steps=30))
        assert (bounded.norm(x_adv - x) <= bounded.radius).all()
        with torch.no_grad():
            assert (model(x_adv).argmax(1) == 1).all() == reached


@pytest.mark.parametrize("store", ["int16", "uint8"])
def test_what_is_stored_is_inside_to_the_last_digit_and_hardly_weaker(store):
    x = torch.rand(3, 400, generator=torch.Generator().manual_seed(0)) * 0.5
    x = (x * 255).round() / 255 if store == "uint8" else (x * 32768).round() / 32768
    around = lambda x: budget(x.double(), 0.04, low=0.0, high=1.0)
    wanted = x.double() + around(x).fill(drawn(3, 400))
    found = stored(wanted, x, store, around)
    exact = (found.double() * 255).round() / 255 if store == "uint8" else found.double()
    clean = (x.double() * 255).round() / 255 if store == "uint8" else x.double()
    size = euclidean(clean, exact, None)
    assert (size <= 0.04 * (1 + 1e-12)).all()
    assert (size >= 0.9 * 0.04).all()


def test_the_ssim_budget_bounds_one_minus_ssim():
    component = load("budgets", "ssim")
    x = torch.rand(3, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    bounded = component.function(BudgetContext(x, "picture"), component.parse({"distance": 0.1}))
    x_adv = x + bounded.fill(torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))
    similar = similarity.ssim(x.double(), x_adv.double())
    assert (similar >= 0.9).all()
    assert (similar <= 0.9 + 2e-4).all()
    assert (bounded.distance(x) == 0).all()
    assert float(x_adv.min()) >= 0
    assert float(x_adv.max()) <= 1
