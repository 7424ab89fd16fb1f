"""Pictures turned, shifted and rearranged: what moves where is known exactly."""

import pytest
import torch
from exact import run
from torch import nn

from limen.attacks.engine.run import Attack
from limen.attacks.wasserstein import Wasserstein
from limen.budgets.families.budget import BudgetContext
from limen.core.components import load
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.models.base.load import load_model
from limen.models.base.model import Classifier

SIDE = 9


def looking_at(*pixels, side=SIDE, threshold=0.5):
    """Class b if the brightness of these pixels sums to more than the threshold."""
    layer = nn.Linear(side * side, 2).double()
    weights = torch.zeros(side, side, dtype=torch.float64)
    for place in pixels:
        weights[place] = 1.0
    layer.weight.data, layer.bias.data = (
        torch.stack([-weights.flatten(), weights.flatten()]),
        torch.tensor([threshold, -threshold]).double(),
    )
    return Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])


def batch_of(*pictures):
    x = torch.stack([p[None].double() for p in pictures])
    return Batch("picture", [f"p{i}" for i in range(len(x))], x, torch.zeros(len(x), dtype=torch.long))


def dot(row, column, side=SIDE):
    picture = torch.zeros(side, side)
    picture[row, column] = 1.0
    return picture


STRAIGHT = {"name": "spatial", "max_rotation_deg": 0.0, "rotations": 1}


def test_a_shift_on_the_grid_moves_the_picture_by_whole_pixels():
    batch = batch_of(dot(4, 4))
    result = run(looking_at((4, 6)), batch, **STRAIGHT, max_shift=2 / SIDE, shifts=3)
    assert result.success.all()
    torch.testing.assert_close(result.x_adv[0, 0], dot(4, 6).double())


@pytest.mark.parametrize("method", ["grid", "worst_of_k", "first_order"])
def test_it_never_succeeds_where_no_allowed_shift_can(method):
    result = run(looking_at((4, 6)), batch_of(dot(4, 4)), **STRAIGHT, method=method, max_shift=1 / SIDE, k=50)
    assert not result.success.any()


@pytest.mark.parametrize("quarters", [1, -1])
def test_a_right_angle_on_the_grid_is_rot90(quarters):
    picture = torch.rand(SIDE, SIDE, generator=torch.Generator().manual_seed(0)) * 0.4
    picture[1, 2] = 1.0
    wanted = torch.rot90(picture, quarters)
    place = tuple((wanted == 1).nonzero()[0].tolist())
    spec = {"name": "spatial", "max_rotation_deg": 90.0, "rotations": 3, "max_shift": 0.0, "shifts": 1}
    result = run(looking_at(place), batch_of(picture), **spec)
    assert result.success.all()
    torch.testing.assert_close(result.x_adv[0, 0], wanted.double(), atol=1e-6, rtol=0)


def test_pictures_that_are_not_square_are_turned_without_being_stretched():
    picture = torch.zeros(5, 11)
    picture[2, 5:8] = 1.0  # from the middle to the right
    layer = nn.Linear(55, 2).double()
    weights = torch.zeros(5, 11, dtype=torch.float64)
    weights[4, 5] = 1.0  # two pixels below the middle
    layer.weight.data, layer.bias.data = (
        torch.stack([-weights.flatten(), weights.flatten()]),
        torch.tensor([0.5, -0.5]).double(),
    )
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    result = run(
        model, batch_of(picture), name="spatial", max_rotation_deg=90.0, rotations=3, max_shift=0.0, shifts=1
    )
    expected = torch.zeros(5, 11, dtype=torch.float64)
    expected[2:5, 5] = 1.0
    torch.testing.assert_close(result.x_adv[0, 0], expected, atol=1e-6, rtol=0)


def test_the_mildest_point_of_the_grid_that_fools_is_found():
    dark_centre = looking_at((4, 4))
    dark_centre.network[1].weight.data *= -1
    dark_centre.network[1].bias.data *= -1
    result = run(dark_centre, batch_of(dot(4, 4)), **STRAIGHT, max_shift=2 / SIDE, shifts=5)
    place = result.x_adv[0, 0].argmax()
    assert result.success.all()
    assert (
        abs(int(place) // SIDE - 4) + abs(int(place) % SIDE - 4) == 1
    )  # one pixel along one axis, and not two
    assert result.calls.forward.tolist() == [9]  # the clean picture and the eight mildest points


def test_a_picture_that_cannot_be_fooled_costs_one_look_per_point_of_the_grid():
    result = run(
        looking_at((0, 0), threshold=5.0),
        batch_of(dot(4, 4), dot(3, 3)),
        name="spatial",
        rotations=7,
        shifts=3,
    )
    assert result.calls.forward.tolist() == [63, 63]
    assert result.calls.backward.tolist() == [0, 0]


def test_a_grid_of_one_point_leaves_the_picture_as_it_is():
    batch = batch_of(dot(4, 4))
    result = run(looking_at((4, 6)), batch, name="spatial", rotations=1, shifts=1)
    assert torch.equal(result.x_adv, batch.x)
    assert result.calls.forward.tolist() == [1]


def test_gradients_lead_a_soft_spot_to_where_the_other_class_looks():
    i = torch.arange(21) - 10.0
    spot = torch.exp(-(i[:, None].square() + i[None].square()) / 18)
    model = looking_at((10, 14), side=21, threshold=0.9)
    result = run(
        model,
        batch_of(spot),
        name="spatial",
        method="first_order",
        max_rotation_deg=10.0,
        max_shift=5 / 21,
        steps=30,
    )
    assert result.success.all()
    mass = result.x_adv[0, 0]
    centre = ((mass * i[None]).sum() / mass.sum(), (mass * i[:, None]).sum() / mass.sum())
    assert 2.5 < centre[0] < 5.1
    assert abs(centre[1]) < 2


def test_what_comes_from_outside_is_black_or_the_border():
    bright = torch.ones(SIDE, SIDE)
    dark = looking_at((4, 0))
    dark.network[1].weight.data *= -1
    dark.network[1].bias.data *= -1
    assert run(dark, batch_of(bright), **STRAIGHT, max_shift=2 / SIDE).success.all()
    assert not run(dark, batch_of(bright), **STRAIGHT, max_shift=2 / SIDE, outside="border").success.any()


@pytest.mark.parametrize("method", ["worst_of_k", "first_order"])
@pytest.mark.parametrize(
    ("norm", "option", "value"),
    [("linf", "eps", 0.1), ("l2", "eps", 0.5), ("l1", "eps", 2.0), ("l0", "count", 5)],
)
def test_a_budget_given_besides_is_kept(method, norm, option, value):
    torch.manual_seed(0)
    model = Classifier(
        nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3).double()), "picture", list("abc")
    )
    x = torch.rand(4, 1, SIDE, SIDE, dtype=torch.float64)
    batch = Batch("picture", list("wxyz"), x, model(x).argmax(1).detach())
    result = run(
        model, batch, name="spatial", method=method, steps=5, restarts=2, budget={"name": norm, option: value}
    )
    ball = load("budgets", norm).function(
        BudgetContext(x, "picture"), load("budgets", norm).parse({option: value})
    )
    assert (ball.norm(result.x_adv - x) <= value * (1 + 1e-6)).all()
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1


def test_on_digits_the_grid_fools_more_than_gradients_and_these_no_less_than_ten_random_points():
    component = load("data", "digits")
    batch, model = component.function(component.parse({"limit": 40})).all(), load_model("cnn")
    share = {
        m: run(model, batch, name="spatial", method=m, restarts=2).success.float().mean()
        for m in ("grid", "first_order", "worst_of_k")
    }
    assert share["grid"] > share["first_order"] >= share["worst_of_k"] - 0.05
    assert share["grid"] > 0.8


def carried(result, batch):
    """(B,) pixels that the brightness was carried, if it was carried along rows only: the distance between
    cumulative sums."""
    delta = (result.x_adv - batch.x)[:, 0]
    return delta.cumsum(2).abs().sum((1, 2)) / batch.x.sum((1, 2, 3))


LINE = {"name": "wasserstein", "window": 5}


def test_brightness_goes_exactly_as_far_as_the_budget_says():
    # half of the brightness must arrive one pixel further: eps 0.5; and two pixels further, eps 1
    for column, exact in ((5, 0.5), (6, 1.0)):
        model, batch = looking_at((4, column)), batch_of(dot(4, 4))
        assert run(model, batch, **LINE, eps=1.01 * exact).success.all()
        result = run(model, batch, **LINE, eps=0.99 * exact)
        assert not result.success.any()
        torch.testing.assert_close(carried(result, batch), torch.tensor([0.99 * exact]).double())


def test_brightness_is_neither_made_nor_lost_and_full_pixels_take_no_more():
    component = load("data", "digits")
    batch, model = component.function(component.parse({"limit": 40})).all(), load_model("cnn")
    result = run(model, batch, name="wasserstein", eps=0.2, steps=20)
    torch.testing.assert_close(result.x_adv.sum((1, 2, 3)), batch.x.sum((1, 2, 3)), rtol=1e-5, atol=0)
    assert result.x_adv.max() <= 1
    assert result.success.float().mean() > 0.8


def test_the_best_plan_spends_the_budget_where_a_pixels_way_pays_most():
    # two dots; the first gains 1 per pixel carried, the second 0.5: a budget for one of them goes to the
    # first
    layer = nn.Linear(SIDE * SIDE, 2).double()
    weights = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    weights[1, 2], weights[7, 2] = 1.0, 0.5
    layer.weight.data, layer.bias.data = (
        torch.stack([-weights.flatten(), weights.flatten()]),
        torch.tensor([9.0, -9.0]).double(),
    )
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    batch = batch_of(dot(1, 1) + dot(7, 1))
    x_adv = run(model, batch, **LINE, eps=0.5, steps=1).x_adv[0, 0]
    torch.testing.assert_close(x_adv, (dot(1, 2) + dot(7, 1)).double())
    x_adv = run(model, batch, **LINE, eps=0.75, steps=1).x_adv[0, 0]
    torch.testing.assert_close(
        x_adv, (dot(1, 2) + 0.5 * dot(7, 1) + 0.5 * dot(7, 2)).double(), atol=1e-6, rtol=0
    )


def test_what_does_not_fit_into_a_full_pixel_stays_where_it_was():
    batch = batch_of(0.8 * (dot(4, 3) + dot(4, 4) + dot(4, 5)))
    result = run(looking_at((4, 4), threshold=5.0), batch, **LINE, eps=1.0)
    assert result.x_adv[0, 0, 4, 4] == pytest.approx(1.0, abs=1e-6)
    torch.testing.assert_close(result.x_adv[0, 0, 4, 3:6].sum(), torch.tensor(2.4).double())


def test_a_black_picture_has_nothing_to_carry():
    batch = batch_of(torch.zeros(SIDE, SIDE))
    assert torch.equal(run(looking_at((4, 4)), batch, **LINE).x_adv, batch.x)


def test_a_window_without_a_middle_is_refused():
    assert Wasserstein(window=3).window == 3
    with pytest.raises(UserError, match="window must be odd"):
        Attack.parse({"name": "wasserstein", "window": 4})
