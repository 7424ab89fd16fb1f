"""Genetic search asks for losses alone: it arrives on linear models, keeps the budget, and every sample lives
on its own stream."""

import pytest
import torch
from exact import linear, smallest
from torch import Tensor, nn

from limen.attacks.engine.run import Attack
from limen.budgets.families.budget import BudgetContext
from limen.core.components import load, parse
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.data.digit_strings import DigitStrings, digit_strings
from limen.models.base.load import load_model
from limen.models.base.model import Classifier, Model
from limen.models.speech.ctc import CtcTranscripts

DUALS = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}


def run(model: Model, batch: Batch, budget: dict, **options: object):
    return Attack.parse({"name": "genetic", "budget": budget, **options})(model, batch)


@pytest.mark.parametrize("norm", DUALS)
def test_on_a_linear_model_it_reaches_the_goal_beyond_the_exact_radius_and_never_inside(norm):
    model, batch, weights, gaps = linear()
    radii = smallest(weights, gaps, batch.y, DUALS[norm])
    outside = run(
        model, batch, {"name": norm, "eps": 1.5 * float(radii.max())}, mutation=0.3, generations=300
    )
    assert outside.success.all()
    assert not run(
        model, batch, {"name": norm, "eps": 0.99 * float(radii.min())}, generations=20
    ).success.any()


def test_a_target_class_is_reached():
    model, batch, weights, gaps = linear(classes=3)
    farthest = gaps / (weights[None] - weights[batch.y][:, None]).norm(p=1, dim=2).clamp_min(1e-9)
    goal = {"name": "target_class", "target": "least_likely"}
    result = run(model, batch, {"name": "linf", "eps": 2 * float(farthest.max())}, goal=goal, mutation=0.3)
    assert result.success.all()


def test_it_asks_for_no_gradient_and_the_fooled_leave():
    model, batch, weights, gaps = linear()
    radii = smallest(weights, gaps, batch.y, 1.0)
    result = run(
        model,
        batch,
        {"name": "linf", "eps": float(radii.median()) * 1.3},
        generations=40,
        population=10,
        elite=2,
    )
    assert (result.calls.backward == 0).all()
    never = radii > float(radii.median()) * 1.3
    assert (result.calls.forward[never] == 10 + 40 * 8).all()
    assert (result.calls.forward[result.success] < 10 + 40 * 8).all()


@pytest.mark.parametrize(
    "norm", [{"name": "linf", "eps": 0.05}, {"name": "l2", "eps": 0.4}, {"name": "l0", "count": 5}]
)
def test_no_member_that_is_ever_looked_at_leaves_the_budget_or_the_range(norm):
    component, options = parse("budgets", norm)
    x = torch.rand(3, 1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = nn.Sequential(nn.Flatten(), nn.Linear(25, 3)).double()

    class Watched(Classifier):
        def forward(self, x_adv: Tensor, lengths=None, generators=None) -> Tensor:
            seen.append(x_adv)
            return super().forward(x_adv)

    seen: list[Tensor] = []
    model = Watched(layer, "picture", list("abc"))
    with torch.no_grad():
        batch = Batch("picture", ["p"], x[:1], layer(x[:1]).argmax(1))
    run(model, batch, norm, generations=15)
    looked = torch.cat(seen)
    ball = component.function(BudgetContext(x[:1].expand_as(looked), "picture"), options)
    assert (ball.norm(looked - x[:1]) <= ball.radius * (1 + 1e-9)).all()
    assert looked.min() >= 0
    assert looked.max() <= 1


def test_the_mutation_rate_of_a_model_that_gives_no_hint_rises_until_all_mutates():
    class Deaf(Model):
        kind, output, classes = "clip", "class", ["a", "b"]

        def forward(self, x: Tensor, lengths=None, generators=None) -> Tensor:
            return torch.tensor([[1.0, 0.0]]).repeat(len(x), 1)

    batch = Batch("clip", ["a"], torch.zeros(1, 400), torch.zeros(1, dtype=torch.long), torch.tensor([400]))
    budget = {"name": "linf", "eps": 0.1}
    early = run(Deaf(), batch, budget, generations=1, mutation=0.01, elite=1).x_adv
    # the elite of a flat landscape is the first member for ever: members after it show the rate, so none of
    # the elite may stay
    assert 0 < (early != 0).float().mean() < 0.05
    herd = _last_population(Deaf(), batch, budget, generations=60, mutation=0.01, mutation_most=1.0, elite=1)
    assert (herd[-1] != 0).float().mean() > 0.9


def _last_population(
    model: Model, batch: Batch, budget: dict, population: int = 20, **options: int | float
) -> Tensor:
    seen: list[Tensor] = []
    hook = model.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    run(model, batch, budget, population=population, **options)
    hook.remove()
    return seen[-2]  # the last one is the judge's


def test_high_passed_noise_stays_above_the_frequency():
    model, batch = load_model("ctc_small"), _clips(2)
    result = run(
        model, batch, {"name": "linf", "eps": 0.01}, generations=1, mutation=1.0, high_pass_hz=7000.0
    )
    delta = result.x_adv - batch.x
    power = torch.fft.rfft(delta).abs().square()
    low = int(6000 / 8000 * power.shape[1])
    assert delta.abs().amax() > 0.005
    assert (power[:, :low].sum(1) < 0.01 * power.sum(1)).all()
    picture_model, pictures, _, _ = linear()
    with pytest.raises(UserError, match="sample rate"):
        run(picture_model, pictures, {"name": "linf", "eps": 0.1}, high_pass_hz=100.0)


def _clips(n: int) -> Batch:
    return digit_strings(DigitStrings(split="test", longest=1, limit=n)).all()


def test_a_real_recogniser_is_fooled_on_some_clips_without_a_gradient_and_a_clip_alone_gives_the_same():
    model, batch = load_model("ctc_small"), _clips(4)
    options = {"generations": 12, "population": 12}
    together = run(model, batch, {"name": "linf", "eps": 0.02}, **options)
    assert together.success.sum() >= 2
    assert (together.x_adv - batch.x).abs().max() <= 0.02 + 1e-6
    for i in (0, 3):
        n = int(batch.lengths[i])
        one = Batch("clip", [batch.ids[i]], batch.x[i : i + 1, :n], [batch.y[i]], batch.lengths[i : i + 1])
        alone = run(model, one, {"name": "linf", "eps": 0.02}, **options)
        torch.testing.assert_close(alone.x_adv[0], together.x_adv[i, :n], atol=1e-4, rtol=0)
        assert (together.x_adv[i, n:] == 0).all()


class Spells(Model):
    """Frames of four samples, each spelling blank, "a" or "b" by a linear rule."""

    output = "transcript"

    kind = "clip"

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def forward(self, x: Tensor, lengths=None, generators=None) -> CtcTranscripts:
        frames = x.unfold(1, 4, 4) @ self.weight.T * 4
        return CtcTranscripts(frames.log_softmax(2), torch.full((len(x),), frames.shape[1]), "ab")


def test_the_finish_takes_over_near_the_target_and_arrives_sooner_than_generations_do():
    model = Spells()
    x = 0.5 * torch.rand(4, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 0.25
    with torch.no_grad():
        batch = Batch("clip", list("wxyz"), x, model(x).texts(), torch.full((4,), 40))
    asked = {
        "goal": {"name": "transcript", "text": "abab"},
        "generations": 40,
        "mutation": 0.001,
        "momentum": 1.0,
    }
    budget = {"name": "linf", "eps": 0.6}
    slow, fast = run(model, batch, budget, **asked), run(model, batch, budget, finish=20, **asked)
    assert fast.success.sum() > slow.success.sum()
    assert fast.success.all()
    assert ((fast.x_adv - x).abs() <= 0.6 + 1e-9).all()


def test_an_elite_as_large_as_the_population_is_refused():
    with pytest.raises(UserError, match="or there are no children"):
        Attack.parse({"name": "genetic", "population": 5, "elite": 5})
    assert load("attacks", "genetic").summary.startswith("Genetic search")
