"""alma finds the smallest change in three norms, sigma_zero, fmn and jsma the fewest pixels, where both are
known in closed form."""

import pytest
import torch
from exact import Trap, linear, run, smallest, to_target
from torch import Tensor, nn

from limen.attacks.jsma import best_pair
from limen.attacks.shared.hyperplane import onto_hyperplane
from limen.attacks.shared.smallest_change import DUALS, clear_margin, smooth_margin
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier

P = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}
NEW = [
    ("alma", {}),
    ("alma", {"norm": "l1"}),
    ("alma", {"norm": "linf"}),
    ("jsma", {"gamma": 1.0}),
    ("sigma_zero", {}),
]


def mirrored(n: int = 12, d: int = 24, seed: int = 0) -> tuple[Classifier, Batch, Tensor, Tensor]:
    """Two classes whose weights are w / 2 and -w / 2, samples of which every other pixel stands at an end of
    the range, the weights (n, d) of the margin and the gaps (n,) to the other class."""
    draw = torch.Generator().manual_seed(seed)
    w = torch.randn(d, generator=draw, dtype=torch.float64)
    x = 0.5 + 0.1 * torch.randn(n, d, generator=draw, dtype=torch.float64)
    x[:, ::2] = (x[:, ::2] > 0.5).double()
    layer = nn.Linear(d, 2).double()
    layer.weight.data, layer.bias.data = torch.stack([w, -w]) / 2, torch.stack([-w.sum(), w.sum()]) / 4
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    with torch.no_grad():
        logits = model(x)
    y = logits.argmax(1)
    towards = torch.where((y == 0)[:, None], -w, w)
    return (
        model,
        Batch("picture", [f"s{i}" for i in range(n)], x.view(n, 1, 1, d), y),
        towards,
        (logits[:, 0] - logits[:, 1]).abs(),
    )


def sizes(batch: Batch, x_adv: Tensor, norm: str) -> Tensor:
    return (x_adv - batch.x).flatten(1).norm(p=P[norm], dim=1)


def changed(batch: Batch, x_adv: Tensor) -> Tensor:
    return (x_adv != batch.x).flatten(1).sum(1)


def gains(batch: Batch, w: Tensor) -> Tensor:
    """(n, d) by how much each pixel can lessen the gap, the largest first."""
    x = batch.x.flatten(1)
    return (w.abs() * torch.where(w > 0, 1 - x, x)).sort(dim=1, descending=True).values


@pytest.mark.parametrize(("norm", "share"), [("l2", 1.001), ("l1", 1.01), ("linf", 1.001)])
def test_alma_finds_the_shortest_way_to_the_other_class(norm, share):
    model, batch, weights, gaps = linear(classes=2, n=12)
    exact = smallest(weights, gaps, batch.y, DUALS[norm])
    result = run(model, batch, name="alma", norm=norm)
    assert result.success.all()
    assert (sizes(batch, result.x_adv, norm) >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, norm) <= exact * share).all()
    assert (result.calls.backward == 100).all()


@pytest.mark.parametrize(("norm", "share"), [("l2", 1.01), ("l1", 1.03), ("linf", 1.01)])
def test_alma_uses_pixels_at_the_ends_of_the_range_as_far_as_they_go(norm, share):
    model, batch, w, gap = mirrored()
    x = batch.x.flatten(1)
    exact = onto_hyperplane(x, w, gap, torch.zeros_like(x), torch.ones_like(x), norm).norm(p=P[norm], dim=1)
    result = run(model, batch, name="alma", norm=norm)
    assert result.success.all()
    assert (sizes(batch, result.x_adv, norm) >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, norm) <= exact * share).all()


def test_alma_finds_the_shortest_way_to_one_of_four_classes_and_those_who_are_there_stay():
    model, batch, weights, gaps = linear(classes=4, n=12)
    exact = to_target(weights, gaps, 2)
    result = run(model, batch, name="alma", goal={"name": "target_class", "target": 2})
    assert result.reached.all()
    assert torch.equal(result.x_adv[exact == 0], batch.x[exact == 0])
    assert (sizes(batch, result.x_adv, "l2") <= exact * 1.02).all()


@pytest.mark.parametrize("norm", P)
def test_alma_goes_the_same_way_whatever_the_scale_of_the_logits(norm):
    model, batch, _, _ = linear(classes=4)
    plain = run(model, batch, name="alma", norm=norm).x_adv
    for values in (model.network[1].weight, model.network[1].bias):
        values.data *= 2**20
    torch.testing.assert_close(run(model, batch, name="alma", norm=norm).x_adv, plain)


def test_jsma_takes_the_pixels_that_gain_most_two_by_two_and_no_more_than_needed():
    model, batch, w, gap = mirrored()
    total = gains(batch, w).cumsum(1)
    result = run(model, batch, name="jsma", gamma=1.0)
    assert result.success.all()
    needed = (total <= gap[:, None]).sum(1) + 1
    assert torch.equal(changed(batch, result.x_adv), needed + needed % 2)
    assert len(needed.unique()) > 2
    lessened = (w * (result.x_adv - batch.x).flatten(1)).sum(1)
    torch.testing.assert_close(lessened, total.gather(1, (needed + needed % 2 - 1)[:, None]).squeeze(1))
    assert torch.equal(
        result.calls.backward, needed + needed % 2 + 2
    )  # two for each pair, and two for the pass that sees the success


@pytest.mark.parametrize("direction", ["up", "down"])
def test_jsma_makes_pixels_only_brighter_or_only_darker_if_asked(direction):
    model, batch, w, _ = mirrored()
    change = run(model, batch, name="jsma", gamma=1.0, direction=direction).x_adv - batch.x
    assert (change != 0).any()
    assert (change >= 0).all() if direction == "up" else (change <= 0).all()
    assert (change.flatten(1) * w >= 0).all()


@pytest.mark.parametrize(("rival", "pixels"), [(1, [0, 0, 1, 1, 0, 0]), (0, [1, 1, 0, 0, 0, 0])])
def test_jsma_weighs_the_target_against_its_rival(rival, pixels):
    # the first two pairs raise the target alike, but the first raises class 1 too and the second lowers it;
    # class 0 never changes, so against it there is nothing to lower and the first of what raises the target
    # is taken
    weights = torch.zeros(4, 6, dtype=torch.float64)
    weights[2] = torch.tensor([2.0, 2.0, 2.0, 2.0, 0.0, 0.0])
    weights[1] = torch.tensor([0.5, 0.5, -1.0, -1.0, -2.0, -2.0])
    layer = nn.Linear(6, 4).double()
    layer.weight.data, layer.bias.data = weights, torch.eye(4, dtype=torch.float64)[rival]
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", list("abcd"))
    batch = Batch("picture", ["s"], torch.zeros(1, 1, 1, 6, dtype=torch.float64), torch.tensor([rival]))
    result = run(model, batch, name="jsma", gamma=1.0, goal={"name": "target_class", "target": 2})
    assert result.x_adv.flatten().tolist() == pixels
    assert result.success.all()


def test_the_best_pair_is_that_of_a_search_over_all_pairs():
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(40, 30, generator=draw, dtype=torch.float64) for _ in range(2))
    b[:10] = (
        0.3 * b[:10] - a[:10]
    )  # what raises the one logit raises the other too: many values on the fronts
    a[10:20], b[10:20] = a[10:20].round(), b[10:20].round()  # ties and values that take no part
    a[20:25] = -a[20:25].abs()  # no pair with both sums positive
    a[25:30], b[25:30] = -a[25:30].abs(), -b[25:30].abs()  # no pair at all
    pair, found = best_pair(a, b, torch.zeros(40, dtype=torch.bool))
    together, against = (v[:, :, None] + v[:, None] for v in (a, b))
    free = (a != 0) | (b != 0)
    pairs = free[:, :, None] & free[:, None] & ~torch.eye(30, dtype=torch.bool)
    both, some = (pairs & mask for mask in ((together > 0) & (against > 0), together + against > 0))
    has_both, has_some = both.flatten(1).any(1), some.flatten(1).any(1)
    assert torch.equal(found, has_some)
    assert 0 < has_both.sum() < has_some.sum() < 40
    score = torch.where(
        has_both[:, None, None],
        torch.where(both, together * against, -torch.inf),
        torch.where(some, together + against, -torch.inf),
    )
    chosen = score[torch.arange(40), pair[:, 0], pair[:, 1]]
    torch.testing.assert_close(chosen[found], score.flatten(1).amax(1)[found])
    alone, one = best_pair(a, b, torch.ones(40, dtype=torch.bool))
    assert torch.equal(alone[:, 0], alone[:, 1])
    single = torch.where((a > 0) & (b > 0), a * b, -torch.inf)
    best = single.amax(1) > 0
    assert one[best].all()
    torch.testing.assert_close(single.gather(1, alone[:, :1]).squeeze(1)[best], single.amax(1)[best])


@pytest.mark.parametrize(("name", "options"), [("sigma_zero", {"steps": 300}), ("fmn", {"norm": "l0"})])
@pytest.mark.parametrize("scale", [1.0, 2.0**13])
def test_the_fewest_pixels_are_found_whatever_the_scale_of_the_logits(name, options, scale):
    model, batch, w, gap = mirrored(n=40, d=60)
    for values in (model.network[1].weight, model.network[1].bias):
        values.data *= scale
    needed = (gains(batch, w).cumsum(1) <= gap[:, None]).sum(1) + 1
    for goal in ("untargeted", "least_likely"):
        result = run(model, batch, name=name, goal=goal, **options)
        assert result.success.all()
        assert torch.equal(changed(batch, result.x_adv), needed)
    assert len(needed.unique()) > 3


def test_an_l0_budget_says_who_is_fooled():
    model, batch, w, gap = mirrored(n=40, d=60)
    needed = (gains(batch, w).cumsum(1) <= gap[:, None]).sum(1) + 1
    for name, options in (("sigma_zero", {"steps": 300}), ("fmn", {"norm": "l0"})):
        result = run(model, batch, name=name, budget={"name": "l0", "count": 2}, **options)
        assert torch.equal(result.success, needed <= 2)
        assert (changed(batch, result.x_adv) <= 2).all()


def test_the_soft_margin_has_the_value_of_the_margin_and_a_gradient_of_all_classes():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 5, generator=draw, dtype=torch.float64).requires_grad_()
    y, temperature = torch.arange(6) % 5, torch.tensor([1.0, 0.5, 2.0, 1.0, 1e-150, 1.0], dtype=torch.float64)
    for targeted in (False, True):
        goal = Goal(y, targeted)
        values = smooth_margin(goal, temperature)(logits)
        torch.testing.assert_close(values, clear_margin(goal)(logits))
        (slope,) = torch.autograd.grad(values.sum(), logits)
        others = (logits.detach().scatter(1, y[:, None], -torch.inf) / temperature[:, None]).softmax(1)
        others[4] = torch.eye(5, dtype=torch.float64)[
            int(logits[4].detach().scatter(0, y[4], -torch.inf).argmax())
        ]  # the margin's own
        expected = others.scatter(1, y[:, None], -1.0)
        torch.testing.assert_close(slope, -expected if targeted else expected)


@pytest.mark.parametrize(
    ("budget", "gamma", "most"),
    [
        ({"name": "l0", "count": 3}, 1.0, 3),
        ({"name": "l0", "count": 1}, 1.0, 1),
        (None, 0.25, 6),
        (None, 0.001, 1),
    ],
)
def test_jsma_changes_no_more_pixels_than_gamma_and_the_budget_allow_and_uses_them(budget, gamma, most):
    model, batch, w, gap = mirrored()
    total = gains(batch, w).cumsum(1)
    result = run(model, batch, name="jsma", gamma=gamma, budget=budget)
    count = changed(batch, result.x_adv)
    assert (count <= most).all()
    assert torch.equal(result.success, total[:, most - 1] > gap)
    assert (count[~result.success] == most).all()


def test_jsma_under_a_linf_budget_moves_each_pixel_as_far_as_it_allows():
    model, batch, w, gap = mirrored()
    x = batch.x.flatten(1)
    total = (
        (w.abs() * torch.where(w > 0, 1 - x, x).clamp_max(0.4)).sort(dim=1, descending=True).values.cumsum(1)
    )
    result = run(model, batch, name="jsma", gamma=1.0, budget={"name": "linf", "eps": 0.4})
    needed = (total <= gap[:, None]).sum(1) + 1
    assert torch.equal(result.success, total[:, -1] > gap)
    assert torch.equal(changed(batch, result.x_adv)[result.success], (needed + needed % 2)[result.success])


def test_jsma_with_a_small_theta_goes_on_with_a_pixel_until_the_end_of_the_range():
    model, batch, w, gap = mirrored()
    x = batch.x.flatten(1)
    result = run(model, batch, name="jsma", gamma=1.0, theta=0.25)
    change = (result.x_adv - batch.x).flatten(1).abs()
    room = torch.where(w > 0, 1 - x, x)
    assert result.success.all()
    assert (((change / 0.25 - (change / 0.25).round()).abs() < 1e-9) | ((change - room).abs() < 1e-9)).all()
    assert change.max() == 1.0
    assert ((change * w.abs()).sum(1) > gap).all()
    assert (result.calls.backward >= run(model, batch, name="jsma", gamma=1.0).calls.backward).all()


def test_jsma_refuses_a_goal_of_more_than_one_class_in_words():
    model, batch, _, _ = linear()
    with pytest.raises(UserError, match="one class"):
        run(model, batch, name="jsma", goal="distribution")


@pytest.mark.parametrize(("name", "options"), NEW)
def test_what_reaches_the_goal_already_is_left_alone(name, options):
    model, batch, _, _ = linear()
    batch.y.copy_((batch.y + 1) % 4)
    result = run(model, batch, name=name, **options)
    assert torch.equal(result.x_adv, batch.x)
    assert (result.calls.forward == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "options"), NEW)
def test_dead_gradients_and_saturated_answers_make_no_trouble(name, options, dtype):
    x = torch.full((3, 1, 2, 3), 0.4, dtype=dtype)
    x[0, 0, 0, 0], x[1, 0, 0, 0] = 0.1, 0.2
    result = run(
        Trap(1e4), Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long)), name=name, **options
    )
    assert torch.isfinite(result.x_adv).all()
    assert result.x_adv.dtype == dtype
    assert result.success.tolist() == [False, False, True]
