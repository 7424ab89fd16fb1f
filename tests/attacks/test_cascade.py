"""Cascade and AutoAttack: survivors only go on, the first success stays, and the published set is the
published set."""

import pytest
import torch
from exact import linear, run, smallest

from limen.attacks.auto_attack import AutoAttack, auto_attack, published
from limen.attacks.cascade import Cascade, cascade
from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import LinfBall
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Model


def halfway(classes: int = 4, n: int = 24):
    """A linear model under a budget that suffices for half of the samples, and which these are."""
    model, batch, weights, gaps = linear(classes=classes, n=n)
    exact = smallest(weights, gaps, batch.y, 1.0)
    eps = float(exact.median()) * 1.0001
    return model, batch, {"name": "linf", "eps": eps}, exact < eps


def test_only_those_who_withstood_an_attack_meet_the_next():
    model, batch, budget, _ = halfway()
    first = run(model, batch, name="fgsm", budget=budget)
    both = run(
        model,
        batch,
        name="cascade",
        attacks=["fgsm", {"name": "pgd", "steps": 7, "random_start": False}],
        budget=budget,
    )
    assert first.success.any()
    assert not first.success.all()
    assert torch.equal(both.x_adv[first.success], first.x_adv[first.success])
    assert (both.calls.backward[first.success] == 1).all()
    assert (
        both.calls.forward[first.success] == 3
    ).all()  # the clean sample, the gradient, the look at what came back
    assert (both.calls.backward[~both.success] == 1 + 7).all()
    assert (both.success >= first.success).all()


def test_who_is_wrong_already_is_left_alone_without_a_look():
    model, batch, budget, _ = halfway()
    batch.y[:5] = (batch.y[:5] + 1) % 4
    for name in ("cascade", "auto_attack"):
        result = run(
            model,
            batch,
            name=name,
            budget=budget,
            **({"steps": 5, "queries": 10} if name == "auto_attack" else {}),
        )
        assert torch.equal(result.x_adv[:5], batch.x[:5])
        assert (result.calls.forward[:5] == 0).all()
        assert (result.calls.backward[:5] == 0).all()


def test_of_failures_the_highest_loss_is_kept():
    model, batch, _, _ = halfway()
    budget = {"name": "linf", "eps": 1e-4}
    strong, weak = {"name": "pgd", "steps": 10}, {"name": "random_noise"}
    results = [
        run(model, batch, name="cascade", attacks=order, budget=budget)
        for order in ([strong, weak], [weak, strong])
    ]
    alone = run(model, batch, name="cascade", attacks=[weak], budget=budget)
    assert not any(r.success.any() for r in results)
    losses = [r.goal.loss(r.adversarial) for r in (*results, alone)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=0)
    assert (losses[0] > losses[2]).all()


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_cascade_we_ship_fools_all_that_can_be_fooled_on_a_linear_model(classes):
    model, batch, budget, possible = halfway(classes)
    assert torch.equal(run(model, batch, name="cascade", budget=budget).success, possible)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1.0), ("l2", 2.0), ("l1", torch.inf)])
def test_auto_attack_is_exact_on_linear_models(norm, dual):
    model, batch, weights, gaps = linear(n=4)
    exact = smallest(weights, gaps, batch.y, dual)
    options = {"steps": 40, "queries": 50}
    for i, radius in enumerate(exact.tolist()):
        one = batch.rows([i])
        assert run(
            model, one, name="auto_attack", **options, budget={"name": norm, "eps": 1.01 * radius}
        ).success.all()
        if i == 0:
            assert not run(
                model, one, name="auto_attack", **options, budget={"name": norm, "eps": 0.99 * radius}
            ).success.any()


def test_a_target_is_a_goal_for_every_attack_of_the_set():
    model, batch, _, _ = linear(classes=3, n=6)
    for name, options in (("cascade", {}), ("auto_attack", {"steps": 20, "queries": 20})):
        result = run(
            model,
            batch,
            name=name,
            **options,
            goal={"name": "target_class", "target": 1},
            budget={"name": "linf", "eps": 0.4},
        )
        assert result.success.all()
        assert (result.adversarial.argmax(1) == 1).all()
        assert torch.equal(result.x_adv[batch.y == 1], batch.x[batch.y == 1])


@pytest.mark.parametrize("name", ["cascade", "auto_attack"])
def test_a_sample_gets_alone_what_it_gets_beside_others(name):
    model, batch, budget, _ = halfway(n=8)
    options = {"steps": 12, "queries": 30} if name == "auto_attack" else {}
    together = run(model, batch, name=name, **options, budget=budget)
    for rows in ([0], [5, 2], [7, 6, 1]):
        part = run(model, batch.rows(rows), name=name, **options, budget=budget)
        torch.testing.assert_close(part.x_adv, together.x_adv[rows], atol=1e-9, rtol=0)
        assert torch.equal(part.calls.forward, together.calls.forward[rows])


def test_what_cannot_be_one_of_several_is_refused_when_the_experiment_is_read():
    for attacks, words in (
        (["uap"], "universal"),
        ([{"name": "pgd", "budget": {"name": "linf", "eps": 0.1}}], "Set it on the cascade"),
        (["pdg"], 'Did you mean "pgd"'),
        ([{"name": "pgd", "stepps": 3}], 'Did you mean "steps"'),
        ([], "at least 1"),
    ):
        with pytest.raises(UserError, match=words):
            parse("attacks", {"name": "cascade", "attacks": attacks})
    _, options = parse("attacks", "cascade")
    assert (
        Cascade.model_validate(options.model_dump()) == options
    )  # the default is a list that could have come from a file


def test_the_sets_are_the_published_ones():
    names = lambda **o: [
        (s["name"], s.get("loss"), s.get("targets", 0), s.get("restarts", 1))
        for s in published(AutoAttack(**o))
    ]
    assert names() == [
        ("apgd", "ce", 0, 1),
        ("apgd", "dlr", 9, 1),
        ("fab", None, 9, 1),
        ("square", None, 0, 1),
    ]
    assert names(version="plus") == [
        ("apgd", "ce", 0, 5),
        ("apgd", "dlr", 0, 5),
        ("fab", None, 0, 5),
        ("square", None, 0, 1),
        ("apgd", "dlr", 9, 1),
        ("fab", None, 9, 1),
    ]
    assert names(version="rand") == [("apgd", "ce", 0, 1), ("apgd", "dlr", 0, 1)]
    for version in ("standard", "plus", "rand"):
        assert all(parse("attacks", spec) for spec in published(AutoAttack(version=version)))


@pytest.mark.parametrize(
    ("name", "options"), [("square", {"queries": 1600}), ("fab", {"norm": "linf", "steps": 80})]
)
def test_only_hopeless_samples_are_given_up(name, options):
    model, batch, budget, _ = halfway()
    every, early = (run(model, batch, name=name, **options, give_up=g, budget=budget) for g in (0.0, 2.0))
    assert torch.equal(early.success, every.success)
    assert every.success.any()
    assert torch.equal(early.x_adv[every.success], every.x_adv[every.success])
    assert early.calls.forward.sum() < 0.8 * every.calls.forward.sum()
    assert (
        early.calls.forward[~every.success] > (100 if name == "square" else 21)
    ).all()  # not at the first look; fab: the clean one, one each step


class Noisy(Model):
    kind, output, classes, random, draws = "picture", "class", ["a", "b"], True, 1

    def forward(self, x, lengths=None, generators=None):
        value = (
            x.flatten(1).sum(1) - 1 + 0.1 * torch.stack([torch.randn((), generator=g) for g in generators])
        )
        return torch.stack([value, -value], 1)


def test_rand_averages_twenty_answers_of_a_random_model_and_leaves_the_model_as_it_was():
    model = Noisy()
    batch = Batch("picture", list("abc"), torch.full((3, 1, 1, 2), 0.9), torch.zeros(3, dtype=torch.long))
    result = run(
        model, batch, name="auto_attack", version="rand", steps=4, budget={"name": "linf", "eps": 0.8}
    )
    assert result.success.all()
    assert (result.calls.forward % 20 == 0).all()
    assert (result.calls.backward == 4 * 20).all()
    assert model.draws == 1


def test_recognisers_are_refused_in_words_where_a_set_needs_classes():
    class Heard(Model):
        kind, output, rate_hz = "clip", "transcript", 16_000

    problem = Problem(
        Heard(),
        torch.zeros(1, 8),
        Goal(["a"], False),
        LinfBall(torch.ones(1)),
        [torch.Generator()],
        -1.0,
        1.0,
    )
    with pytest.raises(UserError, match="needs one classifier"):
        auto_attack(problem, AutoAttack())


def test_a_cascade_of_one_attack_gives_what_that_attack_gives():
    model, batch, budget, _ = halfway()
    problem = lambda: Problem(
        model,
        batch.x,
        Goal(batch.y, False),
        LinfBall(batch.x.new_full((24,), budget["eps"])),
        [torch.Generator()] * 24,
        0.0,
        1.0,
    )
    spec = {"name": "apgd", "steps": 15}
    component, options = parse("attacks", spec)
    torch.testing.assert_close(
        cascade(problem(), Cascade(attacks=[spec])), component.function(problem(), options)
    )
