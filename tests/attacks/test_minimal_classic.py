"""cw_linf, cw_l0, ead and lbfgs find the smallest change there is, within a stated share, where it is known
exactly."""

from typing import Any

import cvxpy
import pytest
import torch
from exact import Hears, linear, run, smallest, to_target
from test_minimal_norm import (
    cornered,
    fooled_alone_as_beside_others,
    ids,
    nearest_in_range,
    no_trouble_in_the_trap,
)
from torch import Tensor, nn

from limen.attacks.ead import _enough
from limen.attacks.engine.run import Attack
from limen.attacks.lbfgs import _Pairs
from limen.attacks.shared.penalty import Adam, Weights
from limen.attacks.shared.smallest_change import rounding_margin
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model

Options = dict[str, Any]
EXACT: list[tuple[str, str, Options, float]] = [
    ("cw_linf", "linf", {}, 1.005),
    ("lbfgs", "l2", {}, 1.01),
    ("ead", "en", {}, 1.01),
    ("ead", "l1", {"decision": "l1", "beta": 20.0, "steps": 60}, 1.02),
    ("ead", "l2", {"beta": 0.0, "step_size": 0.1}, 1.02),
]
"""Attack, norm, options, and the multiple of the exact distance that it promises on a linear model of two
classes."""
ALL = [(name, options) for name, _, options, _ in EXACT] + [("cw_l0", {})]
TO = {"name": "target_class", "target": 2}
BETA = 2.0


def size(delta: Tensor, norm: str) -> Tensor:
    """(B,); "en" is what ead keeps small, at its own beta."""
    flat = delta.flatten(1)
    if norm == "en":
        return flat.square().sum(1) + BETA * flat.abs().sum(1)
    return flat.norm(p={"l1": 1.0, "l2": 2.0, "linf": torch.inf}[norm], dim=1)


def least(model: Classifier, batch: Batch, norm: str, target: int | None = None) -> Tensor:
    """(n,) the exact size of the smallest change to the target, or to the nearest other class, within the
    range."""
    weight, bias = (p.detach().numpy() for p in model.network[1].parameters())
    change, x = cvxpy.Variable(weight.shape[1]), cvxpy.Parameter(weight.shape[1])
    elastic = cvxpy.sum_squares(change) + BETA * cvxpy.norm1(change)
    cost = {
        "l1": cvxpy.norm1(change),
        "l2": cvxpy.norm2(change),
        "linf": cvxpy.norm_inf(change),
        "en": elastic,
    }[norm]
    logits = weight @ (x + change) + bias

    def solved(k: int, rivals: list[int]) -> cvxpy.Problem:
        inside = [x + change >= 0, x + change <= 1, *(logits[k] >= logits[j] for j in rivals)]
        return cvxpy.Problem(cvxpy.Minimize(cost), inside)

    classes, found = range(len(weight)), []
    for picture, y in zip(batch.x.flatten(1).numpy(), torch.as_tensor(batch.y).tolist(), strict=True):
        x.value = picture
        goals = (
            [(k, [y]) for k in classes if k != y]
            if target is None
            else [(target, [k for k in classes if k != target])]
        )
        found.append(min(solved(*goal).solve() for goal in goals))
    return torch.tensor(found, dtype=torch.float64).clamp_min(0)


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_the_smallest_change_to_the_other_class_is_found(name, norm, options, share):
    model, batch, _, _ = linear(classes=2, n=12)
    exact = least(model, batch, norm)
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert (size(result.x_adv - batch.x, norm) >= exact * (1 - 1e-4)).all()  # as far as cvxpy is exact
    assert (size(result.x_adv - batch.x, norm) <= exact * share).all()


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_values_at_the_ends_of_the_range_are_used_as_far_as_they_go(name, norm, options, share):
    model, batch, w, gap = cornered()
    exact = least(model, batch, "en") if norm == "en" else nearest_in_range(batch.x.flatten(1), w, gap, norm)
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    assert (size(result.x_adv - batch.x, norm) >= exact * (1 - 1e-4) - 1e-5).all()
    assert (size(result.x_adv - batch.x, norm) <= exact * (1 + 2 * (share - 1))).all()


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
def test_the_smallest_change_to_one_of_four_classes_is_found_and_those_who_are_there_stay(
    name, norm, options, share
):
    model, batch, weights, gaps = linear(classes=4, n=12)
    exact = to_target(weights, gaps, 2) if norm == "l2" else least(model, batch, norm, target=2)
    result = run(model, batch, name=name, goal=TO, **options)
    there = batch.y == 2
    assert result.reached.all()
    assert torch.equal(result.x_adv[there], batch.x[there])
    assert (size(result.x_adv - batch.x, norm)[~there] >= exact[~there] * (1 - 1e-4)).all()
    assert (size(result.x_adv - batch.x, norm)[~there] <= exact[~there] * (share + 0.03)).all()


@pytest.mark.parametrize(("name", "norm", "options", "share"), EXACT, ids=ids)
@pytest.mark.parametrize("classes", [4, 10])
def test_of_many_classes_most_samples_find_the_nearest(name, norm, options, share, classes):
    """And no way is longer by more than a seventh: the class of the highest logit, towards which they go,
    need not be the nearest."""
    model, batch, weights, gaps = linear(classes=classes, n=12)
    exact = smallest(weights, gaps, batch.y, 2.0) if norm == "l2" else least(model, batch, norm)
    result = run(model, batch, name=name, **options)
    longer = size(result.x_adv - batch.x, norm) / exact
    assert result.success.all()
    assert longer.median() <= share
    assert longer.max() <= 1.14


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_hardly_a_value_more_than_needed_is_changed(classes):
    """Needed to come to the class that is reached: the fewest are those of largest gain, moved to the end of
    the range."""
    model, batch, weights, _ = linear(classes=classes, n=24, d=40)
    model.network[1].bias.data[0] += 10.0  # every sample is far inside this class
    x = batch.x.flatten(1)
    x[:, ::2] = (x[:, ::2] > 0.5).double()
    batch.y.zero_()
    with torch.no_grad():
        logits = model(batch.x)
    result = run(model, batch, name="cw_l0")
    assert result.success.all()
    reached = result.adversarial.argmax(1)
    w, gap = weights[reached] - weights[0], logits[:, 0] - logits.gather(1, reached[:, None]).squeeze(1)
    gains = (w.abs() * torch.where(w > 0, 1 - x, x)).sort(dim=1, descending=True).values.cumsum(1)
    needed = (gains <= gap[:, None]).sum(1) + 1
    extra = (result.x_adv != batch.x).flatten(1).sum(1) - needed
    assert needed.double().mean() > 3.5
    assert ((extra >= 0) & (extra <= 1)).all()
    assert extra.sum() <= 0.07 * needed.sum()


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
@pytest.mark.parametrize("goal", ["untargeted", TO], ids=["away", "to"])
def test_clips_are_fooled_alone_as_beside_others_and_padding_stays(name, options, goal):
    fooled_alone_as_beside_others(name, options, goal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_dead_gradients_and_saturated_answers_make_no_trouble(name, options, dtype):
    no_trouble_in_the_trap(name, options, dtype)


@pytest.mark.parametrize("scale", [2.0**14, 2.0**-20])
@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_nothing_hangs_on_the_scale_of_the_logits(name, options, scale):
    model, batch, _, _ = linear(classes=4)
    quiet = run(model, batch, name=name, **options)
    for values in model.network[1].parameters():
        values.data *= scale  # exact
    torch.testing.assert_close(run(model, batch, name=name, **options).x_adv, quiet.x_adv, atol=1e-8, rtol=0)


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_what_reaches_the_goal_already_is_left_alone_after_one_look(name, options):
    model, batch, _, _ = linear()
    batch.y.copy_((batch.y + 1) % 4)
    attack = Attack.parse({"name": name, **options})
    problem = attack.pose(model, batch)
    assert torch.equal(attack.spec.search[0].function(problem, attack.spec.options), batch.x)
    assert (problem.calls.forward == 1).all()


@pytest.mark.parametrize(("name", "options"), ALL, ids=ids)
def test_what_succeeds_keeps_a_margin_that_rounding_cannot_turn_over(name, options):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 5))
    model, x = Classifier(network, "picture", list("abcde")), torch.rand(16, 1, 6, 6)
    with torch.no_grad():
        batch = Batch("picture", [str(i) for i in range(16)], x, model(x).argmax(1))
    result = run(model, batch, name=name, **options)
    assert result.success.all()
    with torch.no_grad():
        alone = torch.cat(
            [Goal(batch.y[i : i + 1], False).margin(model(result.x_adv[i : i + 1])) for i in range(16)]
        )
    assert (alone > rounding_margin(result.adversarial) / 2).all()


@pytest.mark.parametrize(
    ("name", "norm", "dual", "options"),
    [
        ("cw_linf", "linf", 1.0, {}),
        ("lbfgs", "l2", 2.0, {}),
        ("ead", "l1", torch.inf, {"decision": "l1", "beta": 20.0, "steps": 60}),
    ],
    ids=ids,
)
def test_under_a_budget_a_sample_leaves_once_it_is_inside(name, norm, dual, options):
    model, batch, weights, gaps = linear(classes=2, n=12)
    exact = smallest(weights, gaps, batch.y, dual)
    eps = float(exact.median()) * 1.03
    result = run(model, batch, name=name, budget={"name": norm, "eps": eps}, **options)
    assert torch.equal(result.success, exact <= eps)
    assert (size(result.x_adv - batch.x, norm) <= eps * (1 + 1e-9)).all()
    assert result.calls.forward[result.success].max() < result.calls.forward[~result.success].min()


def test_under_a_budget_of_few_values_cw_l0_leaves_once_it_is_inside():
    model, batch, _, _ = cornered()
    free, bound = (
        run(model, batch, name="cw_l0"),
        run(model, batch, name="cw_l0", budget={"name": "l0", "count": 3}),
    )
    assert bound.success.all()
    assert (bound.calls.forward <= free.calls.forward).all()
    assert bound.calls.forward.sum() < free.calls.forward.sum()


@pytest.mark.parametrize("name", sorted({name for name, _ in ALL}))
def test_what_is_no_classifier_is_refused_in_words(name):
    model, batch, _, _ = linear()

    with pytest.raises(UserError, match="needs one classifier"):
        run(Hears(model), batch, name=name)


def curved() -> tuple[Classifier, Batch]:
    torch.manual_seed(2)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 40), nn.Tanh(), nn.Linear(40, 5)).double()
    model, x = Classifier(network, "picture", list("abcde")), torch.rand(12, 1, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        return model, Batch("picture", [str(i) for i in range(12)], x, model(x).argmax(1))


def test_ead_keeps_what_its_decision_rule_compares():
    model, batch = curved()
    en, l1 = (run(model, batch, name="ead", decision=rule).x_adv - batch.x for rule in ("en", "l1"))
    assert (size(en, "en") <= size(l1, "en")).all()
    assert (size(l1, "l1") <= size(en, "l1")).all()


def test_the_larger_beta_the_fewer_values_ead_changes():
    model, batch = curved()
    counts = [
        (run(model, batch, name="ead", beta=beta).x_adv != batch.x).flatten(1).sum(1).double().mean()
        for beta in (0.0, 0.1, 2.0)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 30
    assert counts[2] < 10


def test_the_first_c_of_ead_is_the_one_that_a_linear_model_needs():
    draw = torch.Generator().manual_seed(0)
    a, need = (
        torch.rand(20, 30, generator=draw, dtype=torch.float64),
        torch.rand(20, generator=draw, dtype=torch.float64),
    )
    for beta in (0.0, 0.3, 5.0):
        c = _enough(a, need, beta)
        torch.testing.assert_close((a * (c[:, None] * a - beta).clamp_min(0) / 2).sum(1), need)
    assert _enough(torch.zeros(1, 3), torch.ones(1), 1.0) == 0  # no slope, no c


def test_cw_linf_goes_on_to_larger_c_and_never_comes_back_with_more():
    model, batch = curved()
    short, long = (run(model, batch, name="cw_linf", c_max=c_max) for c_max in (0.25, 1.0))
    assert (size(long.x_adv - batch.x, "linf") <= size(short.x_adv - batch.x, "linf")).all()
    assert (long.calls.forward > short.calls.forward).all()


def test_cw_l0_leaves_no_value_that_could_be_dropped():
    model, batch = curved()
    result = run(model, batch, name="cw_l0")
    changed = (result.x_adv != batch.x).flatten(1)
    for i in range(len(batch)):
        for j in changed[i].nonzero().squeeze(1).tolist():
            x = result.x_adv[i].clone().flatten()
            x[j] = batch.x[i].flatten()[j]
            with torch.no_grad():
                assert model(x.view(1, 1, 6, 6)).argmax(1) == batch.y[i]


def test_the_pairs_of_lbfgs_give_what_the_updates_of_bfgs_give_in_full():
    draw = torch.Generator().manual_seed(0)
    pairs, c = (
        _Pairs(torch.zeros(2, 6, dtype=torch.float64), history=3),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
    )
    made: list[list[tuple[Tensor, Tensor]]] = [[], []]
    for turn in range(5):
        who = torch.tensor([True, turn % 2 == 0])  # each sample has a ring of its own
        s = torch.randn(2, 6, generator=draw, dtype=torch.float64)
        dg = s * torch.rand(2, 6, generator=draw, dtype=torch.float64)
        pairs.add(who, s, dg)
        for i in who.nonzero().squeeze(1).tolist():
            made[i].append((s[i], dg[i]))
    g, free = (
        torch.randn(2, 6, generator=draw, dtype=torch.float64),
        torch.tensor([[1.0, 1, 0, 1, 1, 1], [1, 1, 1, 1, 0, 1]]).double(),
    )
    result = pairs.times(g, free, c)
    for i in range(2):
        kept = [(s * free[i], (2 * s + c[i] * dg) * free[i]) for s, dg in made[i][-3:]]
        s, y = kept[-1]
        h, eye = torch.eye(6, dtype=torch.float64) * s.dot(y) / y.dot(y), torch.eye(6, dtype=torch.float64)
        for s, y in kept:
            left = eye - torch.outer(s, y) / s.dot(y)
            h = left @ h @ left.T + torch.outer(s, s) / s.dot(y)
        torch.testing.assert_close(result[i], (h @ (g[i] * free[i])) * free[i])


def test_lbfgs_solves_a_quadratic_of_few_dimensions_in_few_steps():
    """Two classes whose logits differ by a quadratic: the boundary is an ellipsoid, and the nearest point on
    it is known."""
    half = torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64)  # of its axes, around the clean sample

    class Egg(Model):
        kind, output, classes = "picture", "class", ["in", "out"]

        def forward(self, x, lengths=None, generators=None):
            z = ((x.flatten(1) - 0.5) / half).square().sum(1) - 1
            return torch.stack([-z, z], 1)

    x = torch.tensor([[0.5, 0.5, 0.51], [0.5, 0.5, 0.45]], dtype=torch.float64).view(2, 1, 1, 3)
    result = run(Egg(), Batch("picture", ["a", "b"], x, torch.zeros(2, dtype=torch.long)), name="lbfgs")
    assert result.success.all()
    torch.testing.assert_close(
        size(result.x_adv - x, "l2"), torch.tensor([0.09, 0.05], dtype=torch.float64), rtol=0.01, atol=0
    )


def test_c_grows_tenfold_until_the_first_success_and_is_halved_in_from_then_on():
    weights = Weights.of(torch.ones(2))
    weights.judge(torch.tensor([False, True]))
    assert weights.c.tolist() == [10.0, 0.5]
    weights.judge(torch.tensor([True]), torch.tensor([0]))
    assert weights.c.tolist() == [5.5, 0.5]
    weights.judge(torch.tensor([True, False]))
    assert weights.c.tolist() == [3.25, 0.75]


def test_adam_makes_first_steps_of_one_and_each_sample_can_start_anew():
    adam, slope = Adam(torch.zeros(2, 3)), torch.tensor([[1.0, -2.0, 0.0], [1e-6, 3e-6, -2e-6]])
    for _ in range(3):
        mean, root = adam.means(slope)
        torch.testing.assert_close(mean / root, slope.sign(), rtol=1e-3, atol=0)
    adam.restart(torch.tensor([True, False]))
    assert adam.counts.tolist() == [0, 3]
    mean, root = adam.means(-slope)
    torch.testing.assert_close((mean / root)[0], -slope[0].sign(), rtol=1e-3, atol=0)
    assert (mean[1] * slope[1] > 0).all()  # the other still remembers
