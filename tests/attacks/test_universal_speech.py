"""One perturbation for all clips: exact on linear models, laid wherever it is asked to be, and far above
noise on a real recogniser."""

import pytest
import torch
from exact import linear
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack, Attacked
from limen.attacks.universal import Universal, _gathered, _on, _places
from limen.budgets.families.budget import BudgetContext
from limen.core.components import parse
from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.data.digit_strings import DigitStrings, digit_strings
from limen.models.base.load import load_model
from limen.models.base.model import Model

RATE_HZ = 100


class Loud(Model):
    """Class b where the samples lean to one side of a pattern that repeats every second; of any length."""

    kind, output, classes, rate_hz = "clip", "class", ["a", "b"], RATE_HZ

    def __init__(self, pattern: Tensor, margin: float = 0.0):
        super().__init__()
        self.pattern, self.margin = pattern, margin

    def forward(self, x: Tensor, lengths: Tensor | None = None, generators=None) -> Tensor:
        pattern = self.pattern[torch.arange(x.shape[1]) % len(self.pattern)]
        n = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        z = (x * pattern).sum(1) / n - self.margin
        return torch.stack([-z, z], 1)


def pattern() -> Tensor:
    return torch.randint(0, 2, (RATE_HZ,), generator=torch.Generator().manual_seed(0)).double() * 2 - 1


def clips(lengths: list[int], level: float = 0.0, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    x = torch.zeros(len(lengths), max(lengths), dtype=torch.float64)
    for row, n in zip(x, lengths, strict=True):
        row[:n] = level * (2 * torch.rand(n, generator=draw, dtype=torch.float64) - 1)
    return Batch(
        "clip",
        [f"{seed}-{i}" for i in range(len(lengths))],
        x,
        torch.zeros(len(lengths), dtype=torch.long),
        torch.tensor(lengths),
    )


def crafted(model: Model, batch: Batch, budget: dict, **options: object) -> Attack:
    attack = Attack.parse({"name": "universal", "budget": budget, **options})
    attack.craft(model, batch)
    return attack


def test_on_a_linear_model_it_becomes_the_sign_of_the_weights_and_is_laid_again_and_again():
    model = Loud(pattern(), margin=0.0999)  # reached only by the whole of eps in the direction of the pattern
    attack = crafted(model, clips([100, 200, 150]), {"name": "linf", "eps": 0.1}, seconds=1.0, at_once=1)
    torch.testing.assert_close(attack.crafted["perturbation"], 0.1 * pattern())
    others = clips([100, 260, 40, 1])
    result = attack(model, others)
    assert result.success.all()
    for row, n in zip(result.x_adv, others.lengths.tolist(), strict=True):
        torch.testing.assert_close(row[:n], 0.1 * pattern().repeat(3)[:n])
        assert (row[n:] == 0).all()


def test_without_tiling_nothing_follows_its_end():
    model = Loud(pattern(), margin=0.02)
    attack = crafted(model, clips([100, 200]), {"name": "linf", "eps": 0.1}, seconds=1.0, tile=False)
    x_adv = attack(model, clips([250])).x_adv[0]
    assert (x_adv[:100] != 0).all()
    assert (x_adv[100:] == 0).all()


def test_over_time_each_sample_begins_somewhere_in_the_loop_by_its_own_stream():
    model = Loud(torch.ones(1, dtype=torch.float64), margin=0.09)
    train, others = clips([120, 90, 100, 110], level=0.001), clips([130, 60, 130], seed=1)
    attack = crafted(model, train, {"name": "linf", "eps": 0.1}, seconds=0.5, over_time=True)
    v = attack.crafted["perturbation"]
    attack.crafted["perturbation"] = marked = torch.linspace(0.01, 0.1, len(v), dtype=v.dtype)
    starts = []
    for seed in (0, 1):
        x_adv = attack(model, others, seed=seed).x_adv
        for row, n in zip(x_adv, others.lengths.tolist(), strict=True):
            start = int((marked - row[0]).abs().argmin())
            starts.append(start)
            torch.testing.assert_close(row[:n], marked.roll(-start).repeat(3)[:n])
    assert len(set(starts)) > 3
    attack.crafted["perturbation"] = v
    assert all(attack(model, others, seed=seed).success.all() for seed in range(5))


def test_the_gradient_by_the_perturbation_is_that_of_autograd():
    model, batch = Loud(pattern()), clips([70, 130, 90], level=0.1)
    problem = Attack.parse({"name": "universal", "budget": {"name": "linf", "eps": 0.5}}).pose(model, batch)
    assert isinstance(problem, Problem)
    for options in (Universal(), Universal(tile=False), Universal(over_time=True)):
        v = (
            0.01 * torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        ).requires_grad_()
        places = _places(problem, 50, options)
        x_adv = _on(problem, v, places)
        (wanted,) = torch.autograd.grad(problem.goal.loss(model(x_adv, batch.lengths)).sum(), v)
        mine = problem.gradient(x_adv.detach())[0] * 0.5  # every clip's level is eps
        torch.testing.assert_close(_gathered(mine, places, v.detach()), wanted)


@pytest.mark.parametrize(
    "budget",
    [{"name": "snr", "snr_db": 20.0}, {"name": "peak_db", "peak_db": -20.0}, {"name": "l2", "eps": 0.1}],
)
def test_it_is_as_loud_as_each_clip_allows_and_no_louder(budget):
    model = Loud(pattern(), margin=0.5)  # out of reach: all of the budget is used
    train = clips([100, 180, 140], level=0.3)
    component, options = parse("budgets", budget)
    attack = crafted(model, train, budget, seconds=1.0, epochs=3)
    quiet, loud = clips([100, 170, 60], level=0.02, seed=2), clips([100, 170, 60], level=0.9, seed=3)
    for others in (quiet, loud):
        ball = component.function(BudgetContext(others.x, "clip", others.lengths), options)
        size = ball.norm(attack(model, others).x_adv - others.x) / ball.radius
        assert (size <= 1 + 1e-9).all()
        assert (size > 0.85).all()


def test_samples_are_perturbed_alike_whatever_stands_beside_them_and_whatever_order_they_were_crafted_in():
    model, train = Loud(pattern(), margin=0.05), clips([100, 180, 140, 90], level=0.1)
    mixed = train.rows([2, 0, 3, 1])
    one, other = (
        crafted(model, b, {"name": "snr", "snr_db": 10.0}, epochs=2, at_once=1, over_time=True)
        for b in (train, mixed)
    )
    torch.testing.assert_close(one.crafted["perturbation"], other.crafted["perturbation"])
    together = one(model, train).x_adv
    for i, n in enumerate(train.lengths.tolist()):
        alone = Batch(
            "clip", [train.ids[i]], train.x[i : i + 1, :n], train.y[i : i + 1], train.lengths[i : i + 1]
        )
        torch.testing.assert_close(one(model, alone).x_adv[0], together[i, :n])


def test_the_best_of_all_epochs_is_kept_and_what_it_says_is_what_it_does():
    model, batch, _, gaps = linear(classes=3, n=30)
    attack = crafted(model, batch, {"name": "linf", "eps": float(gaps.max()) / 40}, epochs=6, at_once=2)
    done = attack.crafted["done"]
    assert float(attack(model, batch).success.float().mean()) == pytest.approx(float(done.max()))
    assert 0 < done.max() < 1


def test_pictures_have_no_seconds():
    model, batch, _, _ = linear()
    for options in ({"seconds": 1.0}, {"over_time": True}):
        with pytest.raises(UserError, match="for clips"):
            crafted(model, batch, {"name": "linf", "eps": 0.1}, **options)


def wrong(result: Attacked, batch: Batch) -> float:
    """Word error rate."""
    errors = [
        edits(y.split(), heard.split()).errors
        for y, heard in zip(batch.y, result.adversarial.texts(), strict=True)
    ]
    return sum(errors) / sum(len(y.split()) for y in batch.y)


@pytest.fixture(scope="module")
def digits() -> tuple[Batch, Batch]:
    """Clips to craft on, and clips of other voices."""
    return tuple(
        digit_strings(DigitStrings(split=split, longest=2, limit=16)).all() for split in ("train", "test")
    )


@pytest.mark.parametrize("over_time", [False, True])
def test_on_a_real_recogniser_it_garbles_voices_it_never_heard_and_noise_as_loud_does_not(digits, over_time):
    model, budget = load_model("ctc_small"), {"name": "linf", "eps": 0.02}
    train, test = digits
    attack = crafted(model, train, budget, seconds=0.5, epochs=2, inner_steps=5, over_time=over_time)
    noise = Attack.parse({"name": "random_noise", "budget": budget})
    assert wrong(attack(model, test), test) > 0.3 + wrong(noise(model, test), test)


def test_a_targeted_perturbation_makes_every_clip_say_the_same(digits):
    model, asked = load_model("ctc_small"), {"goal": {"name": "transcript", "text": "two"}}
    train = digits[0].rows(digits[0].lengths.argsort()[:4])
    attack = crafted(
        model, train, {"name": "linf", "eps": 0.2}, epochs=4, at_once=4, item_share=1.0, seconds=0.5, **asked
    )
    result = attack(model, train)
    assert float(result.reached.float().mean()) == pytest.approx(float(attack.crafted["done"].max()))
    assert result.reached.sum() >= 2
