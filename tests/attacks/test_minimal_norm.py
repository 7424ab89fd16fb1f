"""Attacks that seek the smallest change find it, within a stated share, where it is known in closed form."""

from typing import Any

import pytest
import torch
from exact import Hears, Trap, linear, run, smallest, to_target
from torch import Tensor, nn

from limen.attacks.shared.hyperplane import onto_hyperplane
from limen.attacks.shared.smallest_change import DUALS, clear_margin, rounding_margin
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model

P = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}
EXACT: list[tuple[str, str, dict[str, Any], float]] = [
    ("ddn", "l2", {}, 1.001),
    ("fmn", "l2", {"norm": "l2"}, 1.001),
    ("fmn", "linf", {"norm": "linf"}, 1.01),
    ("fmn", "l1", {"norm": "l1"}, 1.01),
    ("alma", "l2", {"norm": "l2"}, 1.001),
    ("alma", "linf", {"norm": "linf"}, 1.01),
    ("alma", "l1", {"norm": "l1"}, 1.01),
    ("fab", "l2", {"norm": "l2", "steps": 20}, 1.006),
    ("fab", "linf", {"norm": "linf", "steps": 20}, 1.006),
    ("fab", "l1", {"norm": "l1", "steps": 20}, 1.006),
]
"""Attack, norm, options, and the multiple of the exact distance that it promises on a linear model of two
classes."""
SPARSE: list[tuple[str, dict[str, Any]]] = [("fmn", {"norm": "l0"}), ("sigma_zero", {})]
"""Attacks that promise the fewest pixels on a linear model of two classes."""
ALL = [(name, options) for name, _, options, _ in EXACT] + SPARSE + [("jsma", {"gamma": 1.0})]


def ids(values: Any) -> str | None:
    return values if isinstance(values, str) else None


def sizes(batch: Batch, x_adv: Tensor, norm: str) -> Tensor:
    return (x_adv - batch.x).flatten(1).norm(p=P[norm], dim=1)


def cornered() -> tuple[Classifier, Batch, Tensor, Tensor]:
    """Two classes and samples of which every other pixel stands at an end of the range."""
    model, batch, weights, _ = linear(classes=2, n=12, d=24)
    x = batch.x.flatten(1)
    x[:, ::2] = (x[:, ::2] > 0.5).double()
    with torch.no_grad():
        logits = model(batch.x)
    batch.y.copy_(logits.argmax(1))
    gap = (logits[:, 0] - logits[:, 1]).abs()
    return model, batch, (weights[1 - batch.y] - weights[batch.y]), gap


def nearest_in_range(x: Tensor, w: Tensor, gap: Tensor, norm: str) -> Tensor:
    """(n,) the exact distance to {<w, d> = gap} within [0, 1]: by bisection of the one multiplier, or
    greedily for l1."""
    room = torch.where(w > 0, 1 - x, x)
    if norm == "l1":
        order = w.abs().argsort(1, descending=True)
        slope, room = w.abs().gather(1, order), room.gather(1, order)
        before = (slope * room).cumsum(1) - slope * room
        return torch.minimum(((gap[:, None] - before) / slope).clamp_min(0), room).sum(1)
    low, high = torch.zeros_like(gap), torch.full_like(gap, 1e3)
    pace = w.abs() if norm == "l2" else torch.ones_like(w)
    for _ in range(100):
        middle = (low + high) / 2
        short = (torch.minimum(middle[:, None] * pace, room) * w.abs()).sum(1) < gap
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return torch.minimum(high[:, None] * pace, room).norm(p=P[norm], dim=1)


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_the_shortest_way_to_the_other_class_is_found(name, norm, options, share):
    model, batch, weights, gaps = linear(classes=2, n=12)
    exact = smallest(weights, gaps, batch.y, DUALS[norm])
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert (sizes(batch, result.x_adv, norm) >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, norm) <= exact * share).all()


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_the_shortest_way_to_a_target_is_found_and_those_who_are_there_stay(name, norm, options, share):
    model, batch, weights, gaps = linear(classes=2, n=12)
    exact = gaps[:, 0] / (weights[0] - weights[1]).norm(p=DUALS[norm])
    result = run(model, batch, name=name, goal={"name": "target_class", "target": 0}, **options)
    assert result.reached.all()
    assert torch.equal(result.x_adv[exact == 0], batch.x[exact == 0])
    assert (sizes(batch, result.x_adv, norm) <= exact * share).all()


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_pixels_at_the_ends_of_the_range_are_used_as_far_as_they_go(name, norm, options, share):
    model, batch, w, gap = cornered()
    exact = nearest_in_range(batch.x.flatten(1), w, gap, norm)
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert (sizes(batch, result.x_adv, norm) >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, norm) <= exact * (1 + 5 * (share - 1))).all()


@pytest.mark.parametrize(
    ("name", "norm", "options", "share"),
    [
        ("deepfool", "l2", {"overshoot": 0.001}, 1.0011),
        ("deepfool", "linf", {"overshoot": 0.001, "norm": "linf"}, 1.0011),
        ("cw_l2", "l2", {"steps": 200, "learning_rate": 0.003}, 1.02),
    ],
    ids=ids,
)
def test_deepfool_and_cw_know_the_ends_of_the_range_too(name, norm, options, share):
    model, batch, w, gap = cornered()
    exact = nearest_in_range(batch.x.flatten(1), w, gap, norm)
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert (sizes(batch, result.x_adv, norm) >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, norm) <= exact * share).all()


@pytest.mark.parametrize(
    ("name", "options", "share"),
    [
        ("ddn", {}, 1.005),
        ("fmn", {}, 1.005),
        ("alma", {}, 1.005),
        ("fab", {"norm": "l2"}, 1.02),
        ("cw_l2", {"steps": 200, "learning_rate": 0.001, "c_init": 0.01}, 1.02),
    ],
    ids=ids,
)
def test_the_shortest_way_to_one_of_four_classes_is_found(name, options, share):
    model, batch, weights, gaps = linear(classes=4, n=12)
    exact = to_target(weights, gaps, 2)
    result = run(model, batch, name=name, goal={"name": "target_class", "target": 2}, **options)
    assert result.reached.all()
    assert (sizes(batch, result.x_adv, "l2") >= exact * (1 - 1e-9)).all()
    assert (sizes(batch, result.x_adv, "l2") <= exact * share).all()


@pytest.mark.parametrize(("name", "options"), SPARSE, ids=ids)
def test_no_pixel_more_than_needed_is_changed(name, options):
    model, batch, w, gap = cornered()
    x = batch.x.flatten(1)
    gains = (w.abs() * torch.where(w > 0, 1 - x, x)).sort(dim=1, descending=True).values.cumsum(1)
    needed = (gains <= gap[:, None]).sum(1) + 1
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert torch.equal((result.x_adv != batch.x).flatten(1).sum(1), needed)


class Waves(Model):
    """Clips to three classes, in a way that is not linear; padding does not count."""

    kind, output, classes, rate_hz = "clip", "class", ["a", "b", "c"], 16_000

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(5)
        self.weight = nn.Parameter(torch.randn(3, 64, generator=draw, dtype=torch.float64))

    def forward(self, x, lengths=None, generators=None):
        return (3 * x).tanh() @ self.weight[:, : x.shape[1]].T


def clips() -> Batch:
    lengths = torch.tensor([40, 64, 52, 64])
    draw = torch.Generator().manual_seed(2)
    x = (
        0.4
        * (torch.rand(4, 64, generator=draw, dtype=torch.float64) - 0.5)
        * (torch.arange(64) < lengths[:, None])
    )
    with torch.no_grad():
        return Batch("clip", [f"c{i}" for i in range(4)], x, Waves()(x).argmax(1), lengths)


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
@pytest.mark.parametrize("goal", ["untargeted", {"name": "target_class", "target": 2}], ids=["away", "to"])
def test_clips_are_fooled_alone_as_beside_others_and_padding_stays(name, options, goal):
    fooled_alone_as_beside_others(name, options, goal)


def fooled_alone_as_beside_others(name: str, options: dict[str, Any], goal: Any) -> None:
    model, batch = Waves(), clips()
    result = run(model, batch, name=name, goal=goal, **options)
    assert result.reached.all()
    assert result.x_adv.abs().max() <= 1
    for i, n in enumerate(batch.lengths.tolist()):
        assert (result.x_adv[i, n:] == 0).all()
        alone = Batch(
            "clip", [batch.ids[i]], batch.x[i : i + 1, :n], batch.y[i : i + 1], batch.lengths[i : i + 1]
        )
        torch.testing.assert_close(
            run(model, alone, name=name, goal=goal, **options).x_adv[0],
            result.x_adv[i, :n],
            atol=1e-6,
            rtol=0,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_dead_gradients_and_saturated_answers_make_no_trouble(name, options, dtype):
    no_trouble_in_the_trap(name, options, dtype)


def no_trouble_in_the_trap(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    x = torch.full((3, 1, 2, 3), 0.4, dtype=dtype)
    x[0, 0, 0, 0], x[1, 0, 0, 0] = 0.1, 0.2
    result = run(
        Trap(), Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long)), name=name, **options
    )
    assert torch.isfinite(result.x_adv).all()
    assert result.x_adv.dtype == dtype
    assert result.success.tolist() == [False, False, True]


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_what_reaches_the_goal_already_is_left_alone_without_a_look(name, options):
    model, batch, _, _ = linear()
    batch.y.copy_((batch.y + 1) % 4)
    result = run(model, batch, name=name, **options)
    assert torch.equal(result.x_adv, batch.x)
    assert (result.calls.forward == 0).all()


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_what_succeeds_keeps_a_margin_that_rounding_cannot_turn_over(name, options):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 5))
    model = Classifier(network, "picture", list("abcde"))
    x = torch.rand(16, 1, 6, 6)
    with torch.no_grad():
        batch = Batch("picture", [str(i) for i in range(16)], x, model(x).argmax(1))
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    hairs = rounding_margin(result.adversarial)
    with torch.no_grad():
        alone = torch.cat(
            [Goal(batch.y[i : i + 1], False).margin(model(result.x_adv[i : i + 1])) for i in range(16)]
        )
    assert (alone > hairs / 2).all()


@pytest.mark.parametrize("norm", P)
def test_the_way_to_a_hyperplane_is_the_shortest_within_the_range(norm):
    draw = torch.Generator().manual_seed(0)
    t = (
        torch.rand(40, 30, generator=draw, dtype=torch.float64).mul(1.6).sub(0.3).clamp(0, 1)
    )  # some at the ends
    w = torch.randn(40, 30, generator=draw, dtype=torch.float64)
    reach = (w.abs() * torch.where(w > 0, 1 - t, t)).sum(1)
    gap = reach * torch.rand(40, generator=draw, dtype=torch.float64)
    d = onto_hyperplane(t, w, gap, torch.zeros_like(t), torch.ones_like(t), norm)
    torch.testing.assert_close((w * d).sum(1), gap)
    torch.testing.assert_close(d.norm(p=P[norm], dim=1), nearest_in_range(t, w, gap, norm))
    assert ((t + d >= 0) & (t + d <= 1)).all()
    torch.testing.assert_close(
        onto_hyperplane(t, -w, -gap, torch.zeros_like(t), torch.ones_like(t), norm), d
    )  # from the other side


def test_a_hyperplane_out_of_reach_takes_all_the_room_there_is():
    t, w = torch.full((1, 4), 0.25), torch.tensor([[1.0, -2.0, 0.0, 3.0]])
    for norm in P:
        d = onto_hyperplane(t, w, torch.tensor([100.0]), torch.zeros_like(t), torch.ones_like(t), norm)
        torch.testing.assert_close(d, torch.tensor([[0.75, -0.25, 0.0, 0.75]]))


def test_deepfool_stops_a_hair_beyond_the_boundary():
    model, batch, weights, gaps = linear()
    result = run(model, batch, name="deepfool", overshoot=0.0)
    assert result.success.all()
    assert (clear_margin(result.goal)(result.adversarial) > 0).all()
    torch.testing.assert_close(sizes(batch, result.x_adv, "l2"), smallest(weights, gaps, batch.y, 2.0))


def test_fab_under_a_budget_stops_once_it_is_inside():
    model, batch, weights, gaps = linear(classes=2, n=12)
    exact = smallest(weights, gaps, batch.y, 1.0)
    eps = float(exact.median()) * 1.02
    result = run(model, batch, name="fab", steps=20, budget={"name": "linf", "eps": eps})
    assert torch.equal(result.success, exact <= eps)
    assert (result.calls.forward[result.success] < 22).all()
    assert (
        result.calls.forward[~result.success] == 22
    ).all()  # the clean look, one pass for each step and one for the last point


def test_fab_towards_single_classes_finds_the_nearest_of_all():
    model, batch, weights, gaps = linear(classes=5)
    exact = smallest(weights, gaps, batch.y, 2.0)
    result = run(model, batch, name="fab", steps=10, targets=4)
    assert (result.calls.backward == 40).all()
    assert (sizes(batch, result.x_adv, "l2") <= exact * 1.006).all()
    nearer = run(model, batch, name="fab", steps=10, targets=4, restarts=2)
    assert (sizes(batch, nearer.x_adv, "l2") <= exact * 1.006).all()


def test_fab_finds_the_same_whether_it_goes_towards_several_classes_at_once_or_not():
    model, batch, weights, gaps = linear(classes=5, n=24)
    exact = smallest(weights, gaps, batch.y, 1.0)
    eps = float(
        exact.quantile(0.8)
    )  # few are left after the first class: the runs towards the other three go side by side

    class Largest(Classifier):
        """Remembers how many samples it was asked about at once."""

        def forward(self, x, *rest):
            asked.append(len(x))
            return super().forward(x, *rest)

    asked: list[int] = []
    watched = Largest(model.network, "picture", model.classes)
    result = run(watched, batch, name="fab", steps=10, targets=4, budget={"name": "linf", "eps": eps})
    assert torch.equal(result.success, exact <= eps)
    left = int((~result.success).sum())
    assert asked.count(3 * left) >= 8
    assert max(asked) == 24
    for i in range(24):
        one = Batch(batch.kind, batch.ids[i : i + 1], batch.x[i : i + 1], batch.y[i : i + 1])
        alone = run(model, one, name="fab", steps=10, targets=4, budget={"name": "linf", "eps": eps})
        torch.testing.assert_close(alone.x_adv[0], result.x_adv[i], rtol=0, atol=1e-12)
        assert (
            alone.calls.backward[0] <= result.calls.backward[i]
        )  # of a run that an earlier one of the same sample makes needless


@pytest.mark.parametrize("name", sorted({name for name, _ in ALL}))
def test_several_models_at_once_are_refused_in_words(name):
    model, batch, _, _ = linear()

    with pytest.raises(UserError, match="needs one classifier"):
        run(Hears(model), batch, name=name)
