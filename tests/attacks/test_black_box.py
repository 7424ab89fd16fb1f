"""Attacks that see scores or decisions alone: how near they come where the answer is known, and that every
look is counted."""

import pytest
import torch
from exact import linear, run, smallest
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.shared.decision import between, nearer
from limen.attacks.shared.score_estimates import gaussian, probed, signs
from limen.budgets.families.balls import L2Ball
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model

DECISIONS = {"hopskipjump": {"queries": 1500}, "boundary": {"queries": 1200}}
MINIMAL = {
    **DECISIONS,
    "zoo": {"queries": 1500, "coordinates": 12, "learning_rate": 0.02, "h": 0.001, "c_init": 0.1},
}
WITHIN = {"nes": {"queries": 600}, "spsa": {"queries": 600}}
ALL = {**MINIMAL, **WITHIN, "one_pixel": {"queries": 200, "population": 10, "pixels": 12}}


def size(result, batch: Batch, p: float = 2.0) -> Tensor:
    return (result.x_adv - batch.x).flatten(1).norm(p=p, dim=1)


def problem(model: Model, x: Tensor, y: Tensor, budget=None, targeted: bool = False) -> Problem:
    generators = [torch.Generator().manual_seed(i) for i in range(len(x))]
    return Problem(model, x, Goal(y, targeted), budget, generators, 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "norm", "dual", "p", "near"),
    [
        ("hopskipjump", "l2", 2.0, 2.0, 1.03),
        ("hopskipjump", "linf", 1.0, torch.inf, 1.15),
        ("boundary", None, 2.0, 2.0, 1.03),
        ("zoo", None, 2.0, 2.0, 1.05),
    ],
)
def test_the_smallest_change_of_a_linear_model_is_nearly_found(name, norm, dual, p, near):
    model, batch, weights, gaps = linear(classes=2)
    exact = smallest(weights, gaps, batch.y, dual)
    result = run(model, batch, name=name, **MINIMAL[name], **({"norm": norm} if norm else {}))
    assert result.success.all()
    ratio = size(result, batch, p) / exact
    assert (ratio >= 1 - 1e-9).all()
    assert ratio.median() <= near
    assert (ratio <= 1 + 3 * (near - 1)).all()


@pytest.mark.parametrize("name", MINIMAL)
def test_a_target_is_reached_by_nearly_the_shortest_way(name):
    model, batch, weights, gaps = linear(classes=2, n=8)
    exact = gaps[:, 0] / (weights[0] - weights[1]).norm()  # zero for samples that are there already
    result = run(model, batch, name=name, **MINIMAL[name], goal={"name": "target_class", "target": 0})
    assert result.reached.all()
    assert torch.equal(size(result, batch) == 0, exact == 0)
    there = exact > 0
    assert there.any()
    assert ((size(result, batch) / exact)[there] <= 1.1).all()


@pytest.mark.parametrize("name", ALL)
def test_the_looks_asked_for_are_never_exceeded_and_well_used(name):
    model, batch, weights, gaps = linear()
    spec = {**ALL[name], "queries": 157}
    eps = 0.3 * float(
        smallest(weights, gaps, batch.y, 1.0).min()
    )  # too little for any to succeed: none leaves early
    budget = {"budget": {"name": "linf", "eps": eps}} if name not in MINIMAL else {}
    result = run(model, batch, name=name, **spec, **budget)
    assert (result.calls.forward <= 157).all()
    assert (result.calls.forward >= 120).all()
    assert (result.calls.backward == 0).all()


@pytest.mark.parametrize("name", ALL)
def test_what_is_wrong_already_costs_no_look_and_is_left_alone(name):
    model, batch, _, _ = linear()
    batch.y.copy_((batch.y + 1) % 4)
    result = run(model, batch, name=name, **ALL[name], budget={"name": "l2", "eps": 1.0})
    assert torch.equal(result.x_adv, batch.x)
    assert result.reached.all()
    assert (result.calls.forward == 0).all()


@pytest.mark.parametrize("name", ALL)
def test_a_sample_gets_alone_what_it_gets_beside_others(name):
    model, batch, _, _ = linear(n=4)
    spec = {**ALL[name], "queries": 150, "budget": {"name": "l2", "eps": 0.2}}
    together = run(model, batch, name=name, **spec)
    for i in (0, 3):
        alone = run(model, batch.rows([i]), name=name, **spec)
        torch.testing.assert_close(alone.x_adv[0], together.x_adv[i], atol=1e-9, rtol=0)
        assert alone.calls.forward[0] == together.calls.forward[i]


@pytest.mark.parametrize("name", ALL)
def test_models_that_answer_nothing_or_nan_make_no_trouble(name):
    class Broken(Model):
        kind, output, classes = "picture", "class", ["a", "b"]

        def __init__(self, value: float):
            super().__init__()
            self.value = value

        def forward(self, x, lengths=None, generators=None):
            return torch.stack([x.flatten(1).sum(1) * 0 + 1, x.flatten(1).sum(1) * self.value], 1)

    x = torch.tensor([0.0, 0.5, 1.0, 1.0]).view(1, 1, 2, 2).repeat(2, 1, 1, 1)
    for value in (0.0, torch.nan):
        batch = Batch("picture", ["a", "b"], x, torch.zeros(2, dtype=torch.long))
        result = run(
            Broken(value),
            batch,
            name=name,
            **{**ALL[name], "queries": 60},
            budget={"name": "linf", "eps": 0.1},
        )
        assert torch.isfinite(result.x_adv).all()
        assert ((result.x_adv - x).abs() <= 0.1 + 1e-6).all()


@pytest.mark.parametrize("name", WITHIN)
@pytest.mark.parametrize(("norm", "dual"), [("linf", 1.0), ("l2", 2.0)])
def test_estimated_gradients_decide_just_where_the_exact_radius_does(name, norm, dual):
    model, batch, weights, gaps = linear(n=10)
    exact = smallest(weights, gaps, batch.y, dual)
    eps = float(exact.median())
    success = run(model, batch, name=name, **WITHIN[name], budget={"name": norm, "eps": eps}).success
    assert not success[exact > eps].any()
    assert success[exact < 0.9 * eps].all()


@pytest.mark.parametrize("name", WITHIN)
def test_a_sample_leaves_with_the_first_probe_that_reaches_the_goal(name):
    model, batch, weights, gaps = linear()
    result = run(
        model,
        batch,
        name=name,
        **WITHIN[name],
        budget={"name": "l2", "eps": 3 * float(smallest(weights, gaps, batch.y, 2.0).max())},
    )
    assert result.success.all()
    assert (result.calls.forward < 600).all()
    assert ((result.calls.forward - 1) % 10 == 0).all()  # the clean look, then whole steps of five pairs


@pytest.mark.parametrize("draw", [gaussian, signs])
def test_many_probes_give_the_gradient_of_a_linear_model(draw):
    model, batch, weights, _ = linear(classes=2)
    posed = problem(model, batch.x, batch.y, L2Ball(torch.full((len(batch),), 100.0, dtype=torch.float64)))
    true = (weights[1 - batch.y] - weights[batch.y]).view_as(batch.x)
    found = probed(posed, batch.x, draw, 2000, 1e-3)
    cosine = torch.cosine_similarity(found.gradient.flatten(1), true.flatten(1))
    assert (cosine > 0.98).all()
    assert (posed.calls.forward == 4000).all()


def test_bisection_ends_at_the_boundary_and_on_its_far_side():
    model, batch, weights, gaps = linear(classes=2)
    posed = problem(model, batch.x, batch.y)
    w = (weights[1 - batch.y] - weights[batch.y]).view_as(batch.x)
    far = batch.x + 0.4 * w / w.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    x = nearer(posed, far, "l2")
    assert posed.reached(x).all()
    exact = gaps.amax(1) / w.flatten(1).norm(dim=1)
    found = (x - batch.x).flatten(1).norm(dim=1)
    assert (found >= exact).all()
    assert (found <= exact + 0.4 / 1024 + 1e-9).all()


def test_the_way_back_cuts_peaks_under_linf_and_shrinks_all_under_l2():
    model, batch, _, _ = linear(n=1)
    posed = problem(model, batch.x, batch.y)
    delta = torch.linspace(-0.2, 0.4, 12, dtype=torch.float64).view_as(batch.x)
    half = torch.tensor([0.5], dtype=torch.float64)
    torch.testing.assert_close(between(posed, batch.x + delta, half, "l2") - batch.x, delta / 2)
    torch.testing.assert_close(
        between(posed, batch.x + delta, half, "linf") - batch.x, delta.clamp(-0.2, 0.2)
    )


@pytest.mark.parametrize("name", DECISIONS)
def test_a_target_that_no_noise_reaches_leaves_the_sample_unchanged(name):
    class Never(Model):
        kind, output, classes = "picture", "class", ["a", "b", "c"]

        def forward(self, x, lengths=None, generators=None):
            value = x.flatten(1).sum(1)
            return torch.stack([value, value * 0, value * 0 - 1], 1)

    x = torch.full((2, 1, 3, 3), 0.5)
    batch = Batch("picture", ["a", "b"], x, torch.zeros(2, dtype=torch.long))
    result = run(Never(), batch, name=name, start_tries=20, goal={"name": "target_class", "target": 2})
    assert torch.equal(result.x_adv, x)
    assert not result.success.any()
    assert (result.calls.forward == 21).all()


@pytest.mark.parametrize("name", ALL)
def test_a_random_model_is_looked_at_as_often_as_it_says(name):
    class Noisy(Model):
        kind, output, classes, random, draws = "picture", "class", ["a", "b"], True, 3

        def forward(self, x, lengths=None, generators=None):
            shift = torch.stack([torch.randn((), generator=g, dtype=x.dtype) for g in generators])
            value = x.flatten(1).sum(1) - 2 + 0.05 * shift
            return torch.stack([value, -value], 1)

    x = torch.full((2, 1, 2, 2), 0.7, dtype=torch.float64)
    batch = Batch("picture", ["a", "b"], x, torch.zeros(2, dtype=torch.long))
    result = run(
        Noisy(), batch, name=name, **{**ALL[name], "queries": 600}, budget={"name": "linf", "eps": 0.5}
    )
    assert (result.calls.forward <= 600).all()
    assert (result.calls.forward % 3 == 0).all()
    assert result.success.all() or name in MINIMAL  # at the boundary itself a fresh draw may go either way


class Sparse(Model):
    """Only one pixel (or sample) counts, and only if it is bright in its second colour (or loud)."""

    output = "class"

    classes = ("dark", "bright")

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.classes, self.rate_hz = kind, ["dark", "bright"], 16_000

    def forward(self, x, lengths=None, generators=None):
        value = x[:, 1, 2, 3] if self.kind == "picture" else x[:, 5]
        return torch.stack([0.7 - value, value - 0.7], 1)


def test_one_pixel_finds_the_pixel_that_counts_and_changes_no_other():
    x = torch.full((3, 3, 4, 5), 0.5)
    batch = Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long))
    result = run(Sparse("picture"), batch, name="one_pixel", queries=4000)
    assert result.success.all()
    changed = (result.x_adv != x).any(1)
    assert (changed.flatten(1).sum(1) == 1).all()
    assert changed[:, 2, 3].all()


def test_one_pixel_changes_single_samples_of_clips_and_never_their_padding():
    lengths = torch.tensor([8, 20])
    x = 0.1 * torch.ones(2, 20) * (torch.arange(20) < lengths[:, None])
    batch = Batch("clip", ["a", "b"], x, torch.zeros(2, dtype=torch.long), lengths)
    result = run(Sparse("clip"), batch, name="one_pixel", queries=4000)
    assert result.success.all()
    assert ((result.x_adv != x).sum(1) == 1).all()


@pytest.mark.parametrize("pixels", [1, 3])
def test_one_pixel_changes_at_most_as_many_pixels_as_asked(pixels):
    model, batch, _, _ = linear(d=40)
    result = run(model, batch, name="one_pixel", pixels=pixels, queries=300)
    assert ((result.x_adv != batch.x).flatten(1).sum(1) <= pixels).all()


def test_a_model_of_two_classes_at_the_ends_of_the_range_is_fooled():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    network[1].bias.data = -0.5 * network[1].weight.data.sum(1)
    model = Classifier(network, "picture", ["a", "b"])
    x = (torch.rand(4, 1, 4, 4) > 0.5).float()
    with torch.no_grad():
        y = model(x).argmax(1)
    for spec in (
        {"name": "hopskipjump", "queries": 600},
        {"name": "boundary", "queries": 600},
        {"name": "zoo", "queries": 600},
    ):
        result = run(model, Batch("picture", list("abcd"), x, y), **spec)
        assert result.success.all(), spec
