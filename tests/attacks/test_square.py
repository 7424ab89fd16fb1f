"""Square: finds what is there, asks no more than it may, and never about what it knows."""

import pytest
import torch
from exact import BALL, DUAL, curved, fooled, linear, run, smallest, some_wrong

from limen.attacks.engine.problem import Problem
from limen.attacks.square import Square, square
from limen.budgets.families.balls import L1Ball, LinfBall
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Model


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_square_finds_what_a_linear_model_has_and_nothing_inside_the_exact_radius(norm):
    model, batch, weights, gaps = linear(classes=2, n=6, d=16)
    batch = Batch("picture", batch.ids, batch.x.view(6, 1, 4, 4), batch.y)
    exact = smallest(weights, gaps, batch.y, DUAL[norm])
    outside = {"linf": 1.05, "l2": 2.0, "l1": 4.0}[norm]
    assert fooled(square, Square(queries=800), model, batch, BALL[norm](outside * exact)).all()
    assert not fooled(square, Square(queries=200), model, batch, BALL[norm](0.99 * exact)).any()


def test_square_asks_about_no_more_than_twice_the_batch_in_one_pass_whatever_it_tries_at_once():
    model, batch = curved(n=40)
    asked: list[int] = []
    model.network.register_forward_hook(lambda module, inputs, output: asked.append(len(output)))
    result = run(model, batch, name="square", queries=30, at_once=7, budget={"name": "linf", "eps": 1e-5})
    assert not result.success.any()
    assert len(batch) < max(asked) <= 2 * len(batch)
    assert sum(asked[1:-1]) == int(result.calls.forward.sum())


def test_square_asks_as_often_as_it_may_and_never_about_a_point_it_knows():
    asked = []

    class Watched(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def forward(self, x, lengths=None, generators=None):
            asked.append(x.clone())
            return torch.stack([x.flatten(1).sum(1) * 0 + 1, x.flatten(1)[:, 0]], 1)

    x = torch.full((1, 1, 1, 1), 0.5)
    batch = Batch("picture", ["a"], x, torch.zeros(1, dtype=torch.long))
    result = run(Watched(), batch, name="square", queries=60, budget={"name": "linf", "eps": 0.1})
    assert result.calls.forward.item() == sum(map(len, asked)) - 2  # the clean pass and the judge's
    assert result.calls.forward.item() == 60
    points = torch.cat(asked[:-1]).flatten()
    best = int((points > 0.55).nonzero()[0])
    torch.testing.assert_close(
        points[best + 3 :], torch.full_like(points[best + 3 :], 0.4)
    )  # not again about the one found
    torch.testing.assert_close(result.x_adv, torch.full_like(x, 0.6))  # the higher margin
    model, many = curved()
    result = run(model, many, name="square", queries=60, budget={"name": "l2", "eps": 1e-3})
    assert (result.calls.forward <= 60).all()
    assert (result.calls.forward >= 55).all()
    assert (result.calls.backward == 0).all()


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_square_asks_about_several_points_at_once_and_takes_the_best_of_them(at_once):
    asked = []

    class Watched(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def forward(self, x, lengths=None, generators=None):
            asked.append(x.flatten(1).sum(1))
            return torch.stack([asked[-1] * 0 + 1e6, asked[-1]], 1)

    x = torch.full((1, 3, 8, 8), 0.5)
    batch = Batch("picture", ["a"], x, torch.zeros(1, dtype=torch.long))
    result = run(
        Watched(), batch, name="square", queries=62, at_once=at_once, budget={"name": "linf", "eps": 0.1}
    )
    rounds = asked[3:-1]  # without the clean pass, the search's own, the first pattern and the judge's
    assert len(rounds) <= -(-60 // at_once)
    assert max(map(len, rounds)) == at_once
    assert 40 < result.calls.forward.item() <= 62
    torch.testing.assert_close(result.x_adv.sum(), torch.cat(asked).max())


def test_square_lets_fooled_samples_go_and_leaves_alone_what_is_wrong_already():
    model, batch, budget = some_wrong(20, wrong=4)
    result = run(model, batch, name="square", queries=100, budget=budget)
    assert torch.equal(result.x_adv[:4], batch.x[:4])
    assert (result.calls.forward[:4] == 0).all()
    assert result.success[4:].any()
    assert (result.calls.forward[result.success] < 100).all()


def test_square_changes_windows_of_clips_and_never_their_padding():
    class Mean(Model):
        kind, output, classes, rate_hz = "clip", "class", ["a", "b"], 16_000

        def forward(self, x, lengths=None, generators=None):
            value = x.sum(1)
            return torch.stack([value * 0 + 0.5, value], 1)

    lengths = torch.tensor([30, 50, 12])
    x = torch.zeros(3, 50, dtype=torch.float64)
    streams = [torch.Generator().manual_seed(i) for i in range(3)]
    for ball in (
        LinfBall(torch.full((3,), 0.01, dtype=torch.float64)),
        L1Ball(torch.full((3,), 0.3, dtype=torch.float64)),
    ):
        problem = Problem(
            Mean(),
            x,
            Goal(torch.zeros(3, dtype=torch.long), False),
            ball,
            streams,
            -1.0,
            1.0,
            lengths=lengths,
        )
        x_adv = square(problem, Square(queries=300))
        assert all((x_adv[i, n:] == 0).all() for i, n in enumerate(lengths.tolist()))
        assert (ball.norm(x_adv) <= ball.radius * (1 + 1e-9)).all()
        assert (x_adv.sum(1) > 0.9 * (0.01 * lengths if isinstance(ball, LinfBall) else 0)).all()
