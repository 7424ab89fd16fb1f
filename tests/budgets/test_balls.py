"""Projections are exact, against a convex solver and brute force; steps are steepest; starts and fills have
the size they claim."""

import itertools

import cvxpy
import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from limen.budgets.families.balls import Ball, L0Ball, L1Ball, L2Ball, LinfBall
from limen.budgets.families.budget import BudgetContext
from limen.core import seeds
from limen.core.components import load

BALLS = [LinfBall, L2Ball, L1Ball, L0Ball]
ORDER = {LinfBall: "inf", L2Ball: 2, L1Ball: 1}

numbers = st.floats(-3, 3, allow_nan=False, width=32)
deltas = st.lists(st.lists(st.one_of(st.just(0.0), numbers), min_size=6, max_size=6), min_size=1, max_size=4)


def ball(kind: type[Ball], radius: float, n: int) -> Ball:
    return kind(torch.full((n,), max(1.0, round(radius)) if kind is L0Ball else radius, dtype=torch.float64))


@pytest.mark.parametrize("kind", [LinfBall, L2Ball, L1Ball])
def test_the_projection_is_the_nearest_point_that_a_convex_solver_finds(kind):
    draw = np.random.default_rng(0)
    for radius in (0.3, 1.0, 2.5, 20.0):
        delta = draw.normal(size=(2, 9))
        projected = kind(torch.tensor([radius, radius])).project(torch.from_numpy(delta)).numpy()
        for d, p in zip(delta, projected, strict=True):
            v = cvxpy.Variable(9)
            cvxpy.Problem(
                cvxpy.Minimize(cvxpy.sum_squares(v - d)), [cvxpy.norm(v, ORDER[kind]) <= radius]
            ).solve(solver="CLARABEL")
            np.testing.assert_allclose(p, v.value, atol=1e-5)


def test_projections_of_many_values_are_those_of_a_full_sort():
    """Few of them matter in one row, nearly all in the next, and equal ones come in the order in which they
    stand."""
    draw = np.random.default_rng(1)
    delta = draw.normal(size=(6, 700)) * (
        draw.random((6, 700)) < np.array([0.01, 0.1, 0.5, 1, 1, 1])[:, None]
    )
    delta[5] = delta[5].round()
    radius = np.array([0.5, 40.0, 3.0, 500.0, 2.0, 90.0])
    sparse, few = (
        kind(torch.from_numpy(radius)).project(torch.from_numpy(delta)).numpy() for kind in (L1Ball, L0Ball)
    )
    for d, r, p, q in zip(delta, radius, sparse, few, strict=True):
        size = np.abs(d)
        theta = (
            scipy.optimize.brentq(lambda t, size=size, r=r: np.maximum(size - t, 0).sum() - r, 0, size.max())
            if size.sum() > r
            else 0
        )
        np.testing.assert_allclose(p, np.sign(d) * np.maximum(size - theta, 0), atol=1e-9)
        kept = np.argsort(-size, kind="stable")[: int(np.ceil(r))]
        np.testing.assert_array_equal(q, np.where(np.isin(np.arange(700), kept), d, 0))


def test_the_l0_projection_is_the_best_of_all_supports():
    delta = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for count in range(1, 7):
        projected = L0Ball(torch.full((5,), float(count))).project(delta)
        for d, p in zip(delta, projected, strict=True):
            supports = (
                torch.zeros(6, dtype=torch.float64).scatter(0, torch.tensor(s), 1.0)
                for s in itertools.combinations(range(6), count)
            )
            best = min(float((d - d * s).norm()) for s in supports)
            assert float((d - p).norm()) == pytest.approx(best)


@pytest.mark.parametrize("kind", BALLS)
@settings(max_examples=60, deadline=None)
@given(values=deltas, radius=st.floats(0.01, 5))
def test_a_projection_ends_inside_stays_there_and_creates_no_change(kind, values, radius):
    delta = torch.tensor(values, dtype=torch.float64)
    b = ball(kind, radius, len(delta))
    once = b.project(delta)
    assert (b.norm(once) <= b.radius * (1 + 1e-9)).all()
    torch.testing.assert_close(b.project(once), once)
    assert (once[delta == 0] == 0).all()
    inside = b.norm(delta) <= b.radius
    torch.testing.assert_close(once[inside], delta[inside])


@pytest.mark.parametrize("kind", BALLS)
@settings(max_examples=30, deadline=None)
@given(values=deltas, radius=st.floats(0.01, 5))
def test_rows_do_not_look_at_each_other(kind, values, radius):
    delta = torch.tensor(values, dtype=torch.float64)
    b = ball(kind, radius, len(delta))
    for i in range(len(delta)):
        one = b.rows(torch.tensor([i]))
        torch.testing.assert_close(one.project(delta[i : i + 1])[0], b.project(delta)[i])
        torch.testing.assert_close(one.step(delta[i : i + 1], one.radius)[0], b.step(delta, b.radius)[i])


@pytest.mark.parametrize("kind", [LinfBall, L2Ball, L1Ball])
def test_no_step_of_the_same_norm_raises_a_linear_function_more(kind):
    gradient = torch.randn(3, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    size = torch.tensor([0.1, 1.0, 7.0], dtype=torch.float64)
    step = kind(size).step(gradient, size)
    torch.testing.assert_close(kind(size).norm(step), size)
    dual = {LinfBall: 1, L2Ball: 2, L1Ball: torch.inf}[kind]
    torch.testing.assert_close((gradient * step).sum(1), size * gradient.norm(p=dual, dim=1))


def test_an_l2_step_survives_gradients_whose_squares_vanish():
    step = L2Ball(torch.ones(1)).step(torch.full((1, 4), 1e-30), torch.ones(1))
    torch.testing.assert_close(step, torch.full((1, 4), 0.5))


@pytest.mark.parametrize("kind", BALLS)
def test_a_zero_gradient_makes_no_step(kind):
    assert (ball(kind, 2.0, 2).step(torch.zeros(2, 5), torch.full((2,), 2.0)) == 0).all()


@pytest.mark.parametrize("kind", BALLS)
def test_a_start_is_inside_and_leaves_padding_alone(kind):
    like = torch.zeros(4, 50, dtype=torch.float64)
    lengths = torch.tensor([50, 20, 35, 50])
    b = ball(kind, 3.0, 4)
    start = b.start(like, seeds.generators(0, list("abcd")), lengths)
    assert (b.norm(start) <= b.radius * (1 + 1e-9)).all()
    assert (b.norm(start) > 0).all()
    assert all((start[i, n:] == 0).all() for i, n in enumerate(lengths.tolist()))


@pytest.mark.parametrize("kind", BALLS)
def test_a_clip_starts_alone_where_it_starts_beside_a_longer_one(kind):
    lengths = torch.tensor([20, 50])
    together = ball(kind, 3.0, 2).start(torch.zeros(2, 50), seeds.generators(0, ["a", "b"]), lengths)
    alone = ball(kind, 3.0, 1).start(torch.zeros(1, 20), seeds.generators(0, ["a"]), None)
    torch.testing.assert_close(alone[0], together[0, :20], check_dtype=False)


@pytest.mark.parametrize("kind", [LinfBall, L2Ball, L1Ball])
def test_starts_are_spread_over_the_ball(kind):
    """Uniform in the ball of linf and l2: the median norm is the radius times 2^(-1/d)."""
    n, d = 4000, 3
    b = kind(torch.ones(n, dtype=torch.float64))
    start = b.start(torch.zeros(n, d, dtype=torch.float64), seeds.generators(0, [str(i) for i in range(n)]))
    median = 0.5 if kind is L1Ball else 0.5 ** (1 / d)
    assert float(b.norm(start).median()) == pytest.approx(median, abs=0.02)
    assert start.mean(0).abs().max() < 0.03


@pytest.mark.parametrize("kind", BALLS)
def test_fill_gives_exactly_the_radius_and_leaves_nothing_as_nothing(kind):
    delta = torch.randn(3, 10, generator=torch.Generator().manual_seed(2)) * torch.tensor(
        [[1e-25], [1.0], [0.0]]
    )
    b = kind(torch.tensor([4.0, 4.0, 4.0]))
    torch.testing.assert_close(b.norm(b.fill(delta)), torch.tensor([4.0, 4.0, 0.0]))


def clip() -> tuple[Tensor, Tensor]:
    x = torch.randn(3, 400, generator=torch.Generator().manual_seed(3)) * torch.tensor([[0.01], [0.1], [0.3]])
    lengths = torch.tensor([400, 250, 100])
    return x * (torch.arange(400) < lengths[:, None]), lengths


def edge(name: str, values: dict[str, float]) -> tuple[Tensor, Tensor]:
    """Clean clips, and a change that stands at the edge of the budget."""
    x, lengths = clip()
    b = load("budgets", name)
    return x, b.function(BudgetContext(x, "clip", lengths), b.parse(values)).fill(torch.randn_like(x))


def test_the_snr_budget_is_exact():
    x, delta = edge("snr", {"snr_db": 17.5})
    power = [
        (x[i, :n].double().square().sum() / delta[i].double().square().sum())
        for i, n in enumerate([400, 250, 100])
    ]
    torch.testing.assert_close(
        10 * torch.stack(power).log10(), torch.full((3,), 17.5, dtype=torch.float64), atol=1e-4, rtol=0
    )


def test_the_peak_budget_is_exact():
    x, delta = edge("peak_db", {"peak_db": -32.0})
    peaks = delta.double().abs().amax(1) / x.double().abs().amax(1)
    torch.testing.assert_close(
        20 * peaks.log10(), torch.full((3,), -32.0, dtype=torch.float64), atol=1e-4, rtol=0
    )


def test_a_silent_clip_may_not_be_changed_at_all():
    for name, values in (("snr", {"snr_db": 20.0}), ("peak_db", {"peak_db": -20.0})):
        b = load("budgets", name)
        silent = b.function(BudgetContext(torch.zeros(1, 30), "clip"), b.parse(values))
        assert (silent.project(torch.ones(1, 30)) == 0).all()
