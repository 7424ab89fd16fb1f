"""A box is exact: projections against a convex solver, radii in closed form, and an L-inf ball as a special
case."""

import cvxpy
import numpy as np
import pytest
import torch
from torch import nn

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.storage import stored
from limen.attacks.pgd import PGD, pgd
from limen.attacks.square import Square, square
from limen.budgets.families.balls import LinfBall
from limen.budgets.families.boxes import Box
from limen.budgets.families.budget import BudgetContext
from limen.core import seeds
from limen.core.components import load
from limen.core.errors import UserError
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier


def uneven(seed: int = 0, rows: int = 3, n: int = 9) -> Box:
    draw = torch.Generator().manual_seed(seed)
    low, high = (torch.rand(rows, n, generator=draw, dtype=torch.float64) for _ in range(2))
    return Box(torch.ones(rows, dtype=torch.float64), -low, high)


def test_the_projection_is_the_nearest_point_that_a_convex_solver_finds():
    box = uneven()
    delta = np.random.default_rng(0).normal(size=(3, 9))
    for d, p, low, high in zip(
        delta, box.project(torch.from_numpy(delta)).numpy(), box.low.numpy(), box.high.numpy(), strict=True
    ):
        v = cvxpy.Variable(9)
        cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(v - d)), [v >= low, v <= high]).solve(
            solver="CLARABEL"
        )
        np.testing.assert_allclose(p, v.value, atol=1e-5)


def test_the_size_is_the_largest_share_of_an_interval_and_infinite_where_nothing_may_change():
    box = Box(torch.ones(1), torch.tensor([[-0.2, -0.4, 0.0]]), torch.tensor([[0.1, 0.5, 0.0]]))
    for delta, size in (([0.05, 0.1, 0.0], 0.5), ([-0.05, -0.3, 0.0], 0.75), ([0.0, 0.0, 1e-9], torch.inf)):
        assert float(box.norm(torch.tensor([delta]))) == pytest.approx(size)
    assert float(box.norm(torch.zeros(1, 3))) == 0


def test_no_step_of_the_same_size_raises_a_linear_function_more():
    box = uneven(1)
    gradient = torch.randn(3, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    size = torch.tensor([0.1, 1.0, 7.0], dtype=torch.float64)
    step = box.step(gradient, size)
    torch.testing.assert_close(box.norm(step), size)
    most = torch.maximum(gradient * box.high, gradient * box.low).sum(1) * size  # a linear program per value
    torch.testing.assert_close((gradient * step).sum(1), most)


def test_starts_are_uniform_in_each_interval():
    n = 4000
    box = Box(
        torch.ones(n),
        torch.tensor([-1.0, -0.5, 0.0]).repeat(n, 1),
        torch.tensor([3.0, 0.5, 0.0]).repeat(n, 1),
    )
    start = box.start(torch.zeros(n, 3), seeds.generators(0, [str(i) for i in range(n)]))
    torch.testing.assert_close(start.mean(0), torch.tensor([1.0, 0.0, 0.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(start.std(0), torch.tensor([4.0, 1.0, 0.0]) / 12**0.5, atol=0.05, rtol=0)


def test_noise_fills_wide_intervals_whatever_the_tight_ones_are():
    box = Box.symmetric(torch.tensor([[1e-4, 0.5, 0.0]]))
    spread = box.spread(torch.tensor([[0.9, -0.5, 0.8]]))
    torch.testing.assert_close(spread, torch.tensor([[1e-4, -0.5 * 0.5 / 0.9, 0.0]]))


def network(n: int = 16) -> tuple[Classifier, torch.Tensor]:
    w = torch.randn(n, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    layer = nn.Linear(n, 2).double()
    layer.weight.data, layer.bias.data = torch.stack([-w, w]) / 2, torch.zeros(2, dtype=torch.float64)
    return Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"]), w


def problem(box: Box | LinfBall, x: torch.Tensor, model: Classifier) -> Problem:
    goal = Goal(torch.zeros(len(x), dtype=torch.long), False)
    ids = [str(i) for i in range(len(x))]
    return Problem(model, x, goal, box, seeds.generators(0, ids), 0.0, 1.0)


@pytest.mark.parametrize("search", [(pgd, PGD(steps=20)), (square, Square(queries=1500))])
def test_a_search_succeeds_just_outside_the_exact_radius_and_never_inside(search):
    """w.x < 0 turns over as soon as sum |w_i| reach_i exceeds the margin."""
    function, options = search
    model, w = network()
    margin = 0.05
    x = torch.full((2, 16), 0.5, dtype=torch.float64)
    x -= ((x @ w + margin) / w.dot(w))[:, None] * w
    shape = torch.rand(2, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    exact = margin / (w.abs() * shape).sum(1, keepdim=True)
    x, exact, shape = x.view(2, 1, 4, 4), exact.view(2, 1, 1, 1), shape.view(2, 1, 4, 4)
    for share, reached in ((1.02, True), (0.99, False)):
        posed = problem(Box.symmetric(share * exact * shape), x, model)
        x_adv = function(posed, options)
        assert posed.ball.inside(x_adv - x, 1e-9).all()
        with torch.no_grad():
            assert (model(x_adv).argmax(1) == 1).all() == reached


def test_equal_intervals_are_an_linf_ball():
    ball = LinfBall(torch.full((2,), 0.125, dtype=torch.float64))
    box = Box.symmetric(torch.full((2, 1, 4, 4), 0.125, dtype=torch.float64))
    delta = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(box.project(delta), ball.project(delta), atol=0, rtol=0)
    torch.testing.assert_close(box.step(delta, box.radius), ball.step(delta, ball.radius), atol=0, rtol=0)
    torch.testing.assert_close(box.fill(delta), ball.fill(delta))
    model, _ = network()
    x = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    same = [pgd(problem(budget, x, model), PGD(steps=7, early_stop=False)) for budget in (box, ball)]
    torch.testing.assert_close(*same)


def test_only_the_values_that_are_outside_are_taken_back_when_stored():
    step = 1 / 32768
    reach = torch.tensor([[2.6, 1.4, 0.3, 5.0]], dtype=torch.float64) * step
    way = torch.tensor([[2.6, -1.4, 0.3, 0.4]]) * step
    found = stored(way, torch.zeros(1, 4), "int16", lambda _: Box.symmetric(reach)) * 32768
    assert found.tolist() == [[2.0, -1.0, 0.0, 0.0]]


def local(x: torch.Tensor, kind: str, lengths: torch.Tensor | None = None, **options: float) -> Box:
    component = load("budgets", "local_linf")
    return component.function(BudgetContext(x, kind, lengths, 1000), component.parse(options))


def test_a_picture_may_change_by_its_local_standard_deviation_and_flat_areas_not_at_all():
    x = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(6))
    x[1, :, :, :5] = 0.7
    reach = local(x, "picture", share=0.5, window=3).high
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(reach.numpy(), 0.5 * np.nanstd(windows, axis=(4, 5)), atol=1e-6)
    assert (reach[1, :, :, :4] == 0).all()
    assert (reach[1, :, :, 4:] > 0).all()


def test_a_clip_may_change_by_its_local_level_and_silence_not_at_all():
    x = torch.randn(2, 300, generator=torch.Generator().manual_seed(7)) * 0.1
    x[0, 100:200] = 0
    lengths = torch.tensor([300, 120])
    x[1, 120:] = 0
    reach = local(x, "clip", lengths, share=0.5, window_ms=20.0).high
    for row, level, n in zip(x.double().numpy(), reach.numpy(), lengths.tolist(), strict=True):
        for i in range(n):
            around = row[max(0, i - 10) : min(n, i + 11)]
            assert level[i] == pytest.approx(0.5 * np.sqrt(np.mean(around**2)), abs=1e-7)
    assert (reach[0, 110:190] == 0).all()
    assert (reach[1, 120:] == 0).all()


def test_a_clip_of_unknown_rate_has_no_local_level():
    component = load("budgets", "local_linf")
    with pytest.raises(UserError, match="needs the sample rate"):
        component.function(BudgetContext(torch.zeros(1, 10), "clip"), component.parse({"share": 1}))
