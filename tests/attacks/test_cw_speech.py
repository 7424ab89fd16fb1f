"""Carlini and Wagner's audio attack on the recogniser of the zoo: targets reached, quietly, as 16-bit audio,
alone as in a batch."""

from dataclasses import replace

import pytest
import torch
from exact import linear, run, smallest

from limen.attacks.engine.run import Attack
from limen.budgets.families.budget import BudgetContext
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.types import Batch, collate
from limen.models.base.load import load_model

TARGET = {"name": "transcript", "text": "zero nine"}


@pytest.fixture(scope="module")
def recogniser():
    return load_model("ctc_small")


@pytest.fixture(scope="module")
def clips() -> Batch:
    """Three short clips of different lengths: two, two, four six."""
    component, options = parse("data", {"name": "digit_strings", "limit": 8})
    samples = list(component.function(options))
    return collate("clip", [samples[i] for i in (2, 7, 0)])


def alone(batch, i):
    return replace(batch.rows([i]), x=batch.x[i : i + 1, : int(batch.lengths[i])])


def attack(**options):
    return Attack.parse({"name": "cw", "goal": TARGET, **options})


def snr_db(batch, x_adv):
    return 10 * (batch.x.square().sum(1) / (x_adv - batch.x).square().sum(1)).log10()


def test_it_makes_the_recogniser_write_the_target_and_the_audio_is_16_bit(recogniser, clips):
    result = attack(steps=70)(recogniser, clips)
    assert result.success.all()
    with torch.no_grad():
        assert recogniser(result.x_adv, clips.lengths).texts() == ["zero nine"] * 3
    scaled = result.x_adv * 32768
    assert torch.equal(scaled, scaled.round())  # stored with 16 bits it stays what was judged
    assert (snr_db(clips, result.x_adv) > 20).all()
    assert (result.x_adv - clips.x).abs().max() < 0.05 * 0.8  # the radius has shrunk
    assert all((result.x_adv[i, n:] == 0).all() for i, n in enumerate(clips.lengths.tolist()))


def test_a_batch_gives_what_its_members_give_alone(recogniser, clips):
    configured = attack(steps=25)
    together = configured(recogniser, clips, store="int16")
    for i, n in enumerate(clips.lengths.tolist()):
        single = configured(recogniser, alone(clips, i), store="int16")
        torch.testing.assert_close(single.x_adv[0], together.x_adv[i, :n], atol=1e-4, rtol=0)
        assert single.adversarial.texts() == [together.adversarial.texts()[i]]
        assert single.success[0] == together.success[i]


def test_the_same_seed_gives_the_same(recogniser, clips):
    first, again = (attack(steps=5)(recogniser, alone(clips, 0)).x_adv for _ in range(2))
    assert torch.equal(first, again)


def test_a_sample_leaves_after_the_decreases_it_is_allowed(recogniser, clips):
    never = attack(steps=80, max_decreases=0)(recogniser, clips)
    assert never.success.all()
    assert (never.calls.backward < 80).all()
    first_success = attack(steps=int(never.calls.backward[0]) - 1)(recogniser, alone(clips, 0))
    assert first_success.success.all()  # the last point is looked at, too
    assert first_success.calls.backward[0] == never.calls.backward[0] - 1


def test_what_says_the_target_already_is_left_alone(recogniser, clips):
    with torch.no_grad():
        (heard,) = recogniser(alone(clips, 0).x).texts()
    result = attack(goal={"name": "transcript", "text": heard})(recogniser, alone(clips, 0))
    assert result.reached.all()
    assert torch.equal(result.x_adv, alone(clips, 0).x)
    assert result.calls.backward.tolist() == [1]


def test_a_target_out_of_reach_gives_the_lowest_loss_and_no_success(recogniser, clips):
    one = alone(clips, 0)
    result = attack(steps=6, eps=1e-3)(recogniser, one)
    assert not result.success.any()
    goal = result.goal
    with torch.no_grad():
        assert (
            goal.loss(recogniser(result.x_adv, one.lengths)) > goal.loss(recogniser(one.x, one.lengths))
        ).all()
    assert (result.x_adv - one.x).abs().max() <= 1e-3 + 0.5 / 32768


@pytest.mark.parametrize(
    "budget",
    [{"name": "linf", "eps": 0.004}, {"name": "peak_db", "peak_db": -40.0}, {"name": "snr", "snr_db": 30.0}],
)
def test_a_budget_is_kept_up_to_the_rounding_of_the_audio(recogniser, clips, budget):
    component, options = parse("budgets", budget)
    ball = component.function(BudgetContext(clips.x, "clip", clips.lengths), options)
    result = attack(steps=4, budget=budget)(recogniser, clips)
    rounding = 0.5 / 32768 * (1 if budget["name"] != "snr" else clips.lengths.sqrt())
    assert (ball.norm(result.x_adv - clips.x) <= ball.radius + rounding * 1.001).all()
    assert (result.x_adv != clips.x).any(1).all()


@pytest.mark.parametrize(
    "options", [{"sign": True}, {"optimiser": "sgd"}, {"optimiser": "sgd", "sign": True}, {"check_every": 7}]
)
def test_the_forms_of_the_papers_lower_the_loss_too(recogniser, clips, options):
    one = alone(clips, 0)
    result = attack(steps=8, **options)(recogniser, one)
    goal = result.goal
    with torch.no_grad():
        before, after = (-goal.loss(recogniser(x, one.lengths)) for x in (one.x, result.x_adv))
    assert (after < 0.8 * before).all()


def test_on_a_linear_classifier_it_nears_the_smallest_largest_change():
    model, batch, weights, gaps = linear(classes=2)
    exact = smallest(weights, gaps, batch.y, 1.0)
    result = run(model, batch, name="cw", steps=300, learning_rate=0.1, decrease=0.95, eps=0.2)
    heights = (result.x_adv - batch.x).flatten(1).abs().amax(1)
    assert result.success.all()
    assert (heights >= exact * (1 - 1e-9)).all()
    assert (heights <= exact * 1.15).all()


def test_a_text_that_cannot_be_spelt_or_does_not_fit_is_told(recogniser, clips):
    with pytest.raises(UserError, match="cannot output"):
        attack(goal={"name": "transcript", "text": "Zero 9"})(recogniser, clips)
    with pytest.raises(UserError, match="shorten the text"):
        attack(goal={"name": "transcript", "text": "zero nine " * 20})(recogniser, clips)
