"""What every attack keeps, whatever it searches. A new file in limen/attacks is tested here without a line
being added: what an attack promises, takes and needs is declared on its options (`AttackOptions`)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from awkward import NORMS, Blind, ClipNet, Hasty, Ill, Recogniser, clips, pictures, rugged, two_classes
from torch import nn

from limen.attacks.engine.options import FORWARD, AttackOptions
from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack, Attacked
from limen.attacks.engine.spec import AttackSpec
from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import make_budget
from limen.core.components import load, names, parse
from limen.core.errors import UserError
from limen.core.types import Batch, different, predictions
from limen.models.base.model import Model


def options_of(name: str) -> type[AttackOptions]:
    return load("attacks", name).options


def is_ball(name: str) -> bool:
    """True if the budget is a ball of a norm."""
    component = load("budgets", name)
    context = BudgetContext(torch.rand(1, 1, 4, 4), "picture")
    return (
        make_budget(parse("budgets", {"name": name, **component.options.example}), context).norm_name
        is not None
    )


NOT_BALLS = [name for name in names("budgets") if not is_ball(name)]


ATTACKS = [name for name in names("attacks") if not options_of(name).example]
"""Every attack whose options all have defaults; one that needs files of the user's has tests of its own."""
ON_PICTURES = [name for name in ATTACKS if "picture" in options_of(name).kinds]
CLIPS_ONLY = [name for name in ATTACKS if name not in ON_PICTURES]
CLIP_BUDGETS = [{"name": "snr", "snr_db": 10}, {"name": "linf", "eps": 0.1}]
"""Budgets of clips; an attack is tried with the first one that it takes."""
VARIANTS = [
    (name, options)
    for name in ON_PICTURES
    if options_of(name).compares_logits
    for options in options_of(name).variants
]
"""Options that change what is computed from the logits."""
QUERIES = [
    name
    for name in ATTACKS
    if "queries" in options_of(name).model_fields and not options_of(name)().uses_gradients
]
"""Attacks that only evaluate the model, and promise how often."""


def attack(name: str, budget: dict[str, Any] | None, options: dict[str, Any] | None = None) -> Attack:
    return Attack.parse(
        {"name": name, "budget": budget, **(options_of(name).quick if options is None else options)}
    )


def run(
    name: str,
    model: Model,
    batch: Batch,
    budget: dict[str, Any] | None,
    options: dict[str, Any] | None = None,
    seed: int = 0,
) -> Attacked:
    configured = attack(name, budget, options)
    configured.craft(model, batch, seed=seed)
    return configured(model, batch, seed=seed)


def attempt(make: Callable[[], Any]) -> tuple[Any, str]:
    """What came, or the words with which it was refused."""
    try:
        return make(), ""
    except UserError as error:
        return None, str(error)


def changes_every_sample(name: str) -> bool:
    """One perturbation for all, or a control."""
    return options_of(name).universal or options_of(name).changes_every_sample


def clip_budget(name: str, model: Model, batch: Batch) -> dict[str, Any]:
    """The first budget that this attack on clips takes."""
    return next(
        budget
        for budget in CLIP_BUDGETS
        if not attempt(lambda: run(name, model, batch, budget))[1]  # noqa: B023
    )


def on_recogniser(name: str, model: Model, batch: Batch) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The first budget and choice of options with which the attack takes a recogniser; None: it says that it
    needs a classifier."""
    refusals = []
    for budget in ({"name": "snr", "snr_db": 5.0}, *CLIP_BUDGETS):
        for options in (options_of(name).quick, *options_of(name).variants):
            refusal = attempt(lambda: run(name, model, batch, budget, options))[1]  # noqa: B023
            if not refusal:
                return budget, options
            refusals.append(refusal)
    assert any("classifier" in refusal for refusal in refusals), refusals
    return None


LINF = {"name": "linf", "eps": 0.1}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ON_PICTURES)
def test_on_a_linear_model_it_succeeds_just_outside_the_exact_radius(name, norm):
    promise = options_of(name).promise
    if promise.outside is None or norm not in promise.norms:
        return  # it declares that it promises nothing here
    model, batch, radius = two_classes(norm)
    for goal in ({}, {"goal": {"name": "target_class", "target": 1}}):
        options = {**promise.options.get(norm, {}), **goal}
        result, refusal = attempt(
            lambda options=options: run(
                name, model, batch, {"name": norm, "eps": promise.outside * radius}, options
            )
        )
        assert "supports no target" in refusal if refusal else result.success.all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ON_PICTURES)
def test_on_a_linear_model_it_never_succeeds_inside_the_exact_radius(name, norm):
    model, batch, radius = two_classes(norm)
    options = {**options_of(name).quick, **options_of(name).promise.options.get(norm, {})}
    assert not run(name, model, batch, {"name": norm, "eps": 0.99 * radius}, options).success.any()


@pytest.mark.parametrize(
    ("norm", "option", "value"),
    [("linf", "eps", 0.07), ("l2", "eps", 0.6), ("l1", "eps", 3.0), ("l0", "count", 7)],
)
@pytest.mark.parametrize("name", ON_PICTURES)
def test_it_stays_within_budget_and_range(name, norm, option, value):
    model, batch = pictures()
    x_adv = run(name, model, batch, {"name": norm, option: value}).x_adv
    change = (x_adv.double() - batch.x.double()).flatten(1)
    if norm == "l0":
        assert ((change != 0).sum(1) <= value).all()
    else:
        # the sum x + delta is rounded when it is stored, by half a step of the float at most; delta itself is
        # projected in single precision
        rounding = (x_adv.nextafter(torch.tensor(2.0)) - x_adv).double().flatten(1) / 2 * (change != 0)
        p = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}[norm]
        assert (change.norm(p=p, dim=1) <= value * (1 + 1e-6) + rounding.norm(p=p, dim=1)).all()
    assert x_adv.min() >= 0
    assert x_adv.max() <= 1
    assert x_adv.shape == batch.x.shape


@pytest.mark.parametrize("budget", NOT_BALLS)
@pytest.mark.parametrize("name", ON_PICTURES)
def test_under_a_budget_that_is_no_ball_it_stays_inside_or_says_what_it_needs(name, budget):
    model, batch = pictures()
    spec = {"name": budget, **load("budgets", budget).options.example}
    result, refusal = attempt(lambda: run(name, model, batch, spec))
    if refusal:
        assert f"The attack {name} needs an " in refusal
        assert f"got {budget}. Use pgd." in refusal
        return
    allowed = make_budget(parse("budgets", spec), BudgetContext(batch.x, "picture"))
    assert allowed.inside(result.x_adv - batch.x, 2e-6).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_it_declares_whether_it_needs_a_budget(name):
    model, batch = pictures() if name in ON_PICTURES else (ClipNet().double(), clips(ClipNet().double()))
    configured = attack(name, None)
    (component, options), problem = configured.spec.search, configured.pose(model, batch)

    def search() -> None:
        extra = (options.craft(problem),) if options.universal else ()
        component.function(problem, options, *extra)

    assert options.needs_budget == ("needs a budget" in attempt(search)[1])
    assert not (options.minimal and options.needs_budget)
    refusal = attempt(lambda: (configured.craft(model, batch), configured(model, batch)))[1]
    assert options.needs_budget == (f"The attack {name} needs a budget" in refusal)


def measured(name: str, options: dict[str, Any] | None = None) -> tuple[AttackOptions, Attacked]:
    """A run on samples of a kind that the attack takes."""
    if name in ON_PICTURES:
        model, batch = pictures()
    else:
        with torch.random.fork_rng():  # the same net in any order of tests, and labelled by itself
            torch.manual_seed(0)
            model = ClipNet().double()
        batch = clips(model)
    budget = LINF if name in ON_PICTURES else clip_budget(name, model, batch)
    return attack(name, budget, options).spec.options, run(name, model, batch, budget, options)


@pytest.mark.parametrize("name", ATTACKS)
def test_it_declares_whether_it_uses_gradients_and_its_cost_is_an_upper_bound(name):
    options, result = measured(name)
    calls = result.calls
    assert options.universal or bool(calls.backward.any()) == options.uses_gradients
    spent = calls.backward + (calls.forward - calls.backward).clamp_min(0) * FORWARD
    # besides: the clean point, the end point, and the way back of a smallest change
    assert (spent <= options.cost(classes=4) + 8).all(), (spent.max(), options.cost(classes=4))


@pytest.mark.parametrize("name", [name for name in ATTACKS if not options_of(name).searches])
def test_what_searches_nothing_never_calls_the_model(name):
    calls = measured(name, {})[1].calls
    assert not calls.forward.any()
    assert not calls.backward.any()


@pytest.mark.parametrize("name", names("attacks"))
def test_its_options_extend_attack_options_and_its_facts_are_plain(name):
    options = options_of(name)
    assert issubclass(options, AttackOptions)
    assert options.kinds
    assert set(options.kinds) <= {"picture", "clip"}
    assert ("craft" in vars(options)) == options.universal
    for settings in (options.quick, *options.variants):
        parsed = attack(name, None, {**options.example, **settings}).spec
        assert all(isinstance(value, bool) for value in parsed.facts().values())
        assert parsed.facts()["targeted"] is False
        assert AttackSpec.parse(parsed.resolved()).resolved() == parsed.resolved()


@pytest.mark.parametrize("name", ON_PICTURES)
def test_success_is_what_a_fresh_forward_pass_says(name):
    model, batch = pictures()
    result = run(name, model, batch, LINF)
    with torch.no_grad():
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != batch.y)


CROSS_ENTROPY = [
    (name, {"loss": "ce", "steps": 40}) for name in ON_PICTURES if "loss" in options_of(name).model_fields
]
"""A higher cross-entropy need not fool."""


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in ON_PICTURES if not changes_every_sample(name)] + VARIANTS + CROSS_ENTROPY,
)
def test_whoever_was_fooled_within_the_budget_on_the_way_comes_back_fooled(name, options, monkeypatch):
    model, batch = rugged()
    seen = torch.zeros(len(batch), dtype=torch.bool)

    def watched(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(problem: Problem, x_adv: torch.Tensor, *rest: Any, **named: Any) -> Any:
            answer = ask(problem, x_adv, *rest, **named)
            if x_adv.shape[1:] == batch.x.shape[1:]:  # and not a sticker
                inside = (x_adv.detach() - batch.x[problem.index]).abs().flatten(1).amax(1) < 0.999 * LINF[
                    "eps"
                ]
                seen[problem.index[answer[-1] & inside]] = True
            return answer

        return asked

    for method in ("gradient", "evaluate"):
        monkeypatch.setattr(Problem, method, watched(getattr(Problem, method)))
    result = run(name, model, batch, LINF, {**options_of(name).quick, **options})
    assert result.success[seen].all()


@pytest.mark.parametrize("wide", [1.05, 3.0])
@pytest.mark.parametrize("name", ON_PICTURES)
def test_a_success_of_a_hasty_stand_in_is_confirmed_before_a_picture_leaves(name, wide):
    norm = options_of(name).promise.norms[0]
    model, batch, radius = two_classes(norm)
    options = options_of(name).promise.options.get(norm) or options_of(name).quick
    budget = {"name": norm, "eps": wide * radius}
    honest = run(name, model, batch, budget, options)
    hasty = run(
        name, Hasty(model, less=0.05), batch, budget, options
    )  # half of the margin: fooled at half of the radius
    assert hasty.success[honest.success].all()
    with torch.no_grad():
        assert torch.equal(hasty.success, model(hasty.x_adv).argmax(1) != batch.y)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_success_of_a_hasty_stand_in_is_confirmed_before_a_clip_leaves(name):
    torch.manual_seed(4)
    model = Recogniser().double()
    batch = clips(model)
    taken = on_recogniser(name, model, batch)
    if taken is None:
        return
    budget, options = taken
    honest = run(name, model, batch, budget, options)
    hasty = run(name, Hasty(model, less=1.0), batch, budget, options)
    if changes_every_sample(name):  # one perturbation for all owes no single clip anything
        assert hasty.success.any() or not honest.success.any()
    else:
        assert hasty.success[honest.success].all()


@pytest.mark.parametrize("name", ON_PICTURES)
def test_it_leaves_the_model_and_the_global_random_state_as_they_were(name):
    model, batch = pictures()
    model.train()
    modes, state = [m.training for m in model.modules()], torch.random.get_rng_state()
    values = {k: v.clone() for k, v in model.state_dict().items()}
    run(name, model, batch, LINF)
    assert [m.training for m in model.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(torch.equal(v, values[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not batch.x.requires_grad


@pytest.mark.parametrize("name", ON_PICTURES)
def test_pictures_get_the_same_alone_in_parts_and_in_any_order(name):
    model, batch = pictures(torch.float64)
    configured = attack(name, LINF)
    configured.craft(model, batch)
    together = configured(model, batch).x_adv
    for rows in ([0], [3], [0, 1], [2, 3, 4], [4, 3, 2, 1, 0]):
        torch.testing.assert_close(
            configured(model, batch.rows(rows)).x_adv, together[rows], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("name", ATTACKS)
def test_clips_of_different_lengths_keep_their_padding_and_give_what_they_give_alone(name):
    torch.manual_seed(3)
    model = ClipNet().double()
    batch = clips(model)
    assert batch.lengths is not None
    configured = attack(name, {"name": "snr", "snr_db": 10.0})
    result, refusal = attempt(lambda: (configured.craft(model, batch), configured(model, batch))[1])
    if refusal:
        assert "pictures" in refusal  # an attack on pictures alone says so
        return
    together = result.x_adv
    for i, n in enumerate(batch.lengths.tolist()):
        assert (together[i, n:] == 0).all()
        alone = Batch(
            "clip", [batch.ids[i]], batch.x[i : i + 1, :n], batch.y[i : i + 1], batch.lengths[i : i + 1]
        )
        torch.testing.assert_close(configured(model, alone).x_adv[0], together[i, :n], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ON_PICTURES)
def test_the_same_seed_gives_the_same_and_ids_have_streams_of_their_own(name):
    model, batch = pictures()
    twins = Batch(
        "picture",
        list("abcde"),
        batch.x[:1].expand(5, -1, -1, -1).contiguous(),
        batch.y[:1].expand(5).contiguous(),
    )
    first, again, other = (run(name, model, twins, LINF, seed=seed).x_adv for seed in (0, 0, 1))
    assert torch.equal(first, again)
    draws = not torch.allclose(first, other)
    differ = not torch.allclose(first, first[:1].expand_as(first))
    assert differ == draws or options_of(name).universal  # one perturbation for all may draw and still be one


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ON_PICTURES)
def test_the_dtype_follows_the_input(name, dtype):
    model, batch = pictures(dtype)
    assert run(name, model, batch, LINF).x_adv.dtype == dtype


@pytest.mark.parametrize("name", ON_PICTURES)
def test_it_reports_every_call_of_the_model(name):
    model, batch = pictures()
    configured = attack(name, LINF)
    configured.craft(model, batch)
    model.asked = 0
    result = configured(model, batch)
    judged = 2 * len(batch)  # the clean pass and the fresh one
    assert int(result.calls.forward.sum()) == model.asked - judged
    assert (result.calls.backward >= 0).all()
    assert (result.calls.dead <= result.calls.backward).all()


@pytest.mark.parametrize("name", ON_PICTURES)
def test_what_is_wrong_already_comes_back_as_it_is_and_costs_nothing(name):
    model, batch = pictures(torch.float64)
    wrong = torch.tensor([False, True, False, True, False])
    mixed = Batch(
        "picture", batch.ids, batch.x, torch.where(wrong, (torch.as_tensor(batch.y) + 1) % 4, batch.y)
    )
    configured = attack(name, LINF)
    configured.craft(model, mixed)
    result = configured(model, mixed)
    assert torch.isfinite(result.x_adv).all()
    if not changes_every_sample(name):
        assert torch.equal(result.x_adv[wrong], batch.x[wrong])
        assert (result.calls.forward[wrong] == 0).all()
        assert result.reached[wrong].all()
    others = (~wrong).nonzero().squeeze(1)
    torch.testing.assert_close(
        result.x_adv[others], configured(model, mixed.rows(others)).x_adv, atol=1e-5, rtol=0
    )


MORE = [
    (name, {option: value})
    for name in ON_PICTURES
    for option, value in (("early_stop", False), ("confidence", 9.0))
    if option in options_of(name).model_fields and options_of(name)(**{option: value}).continues_after_success
]
"""Options with which an attack seeks more than the goal."""


@pytest.mark.parametrize(("name", "more"), MORE)
def test_an_attack_that_is_asked_for_more_than_the_goal_goes_on_with_what_is_wrong_already(name, more):
    model, batch = pictures()
    wrong = Batch("picture", batch.ids, batch.x, (torch.as_tensor(batch.y) + 1) % 4)
    result = run(name, model, wrong, LINF, {**options_of(name).quick, **more})
    assert ((result.x_adv != batch.x).flatten(1).any(1)).all()
    with torch.no_grad():
        assert (result.goal.loss(model(result.x_adv)) > result.goal.loss(model(batch.x))).all()


@pytest.mark.parametrize("name", ON_PICTURES)
def test_a_target_is_what_success_means_or_it_is_refused_in_words(name):
    model, batch = pictures()
    options = {**options_of(name).quick, "goal": {"name": "target_class", "target": "random"}}
    result, refusal = attempt(lambda: run(name, model, batch, {"name": "linf", "eps": 0.4}, options))
    if refusal:
        assert "target" in refusal
        return
    assert (result.goal.reference != batch.y).all()
    with torch.no_grad():
        assert torch.equal(result.success, model(result.x_adv).argmax(1) == result.goal.reference)
    assert result.success.any() or options_of(name).promise.outside is None


@pytest.mark.parametrize(("name", "options"), [(name, {}) for name in ON_PICTURES] + VARIANTS)
def test_two_classes_are_enough(name, options):
    model, batch = pictures(classes=2)
    result, refusal = attempt(
        lambda: run(name, model, batch, {"name": "linf", "eps": 0.3}, {**options_of(name).quick, **options})
    )
    assert not refusal
    assert torch.isfinite(result.x_adv).all()
    with torch.no_grad():
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != batch.y)
    assert result.success.any() or options_of(name).promise.outside is None


@pytest.mark.parametrize("model", [Blind("rounds"), Blind("cuts"), Blind("constant")], ids=lambda m: m.way)
@pytest.mark.parametrize("name", ON_PICTURES)
def test_a_model_without_gradients_is_survived_and_every_dead_gradient_counted(name, model):
    batch = pictures()[1]
    with torch.no_grad():
        batch = Batch("picture", batch.ids, batch.x, model(batch.x).argmax(1))
    result = run(name, model, batch, LINF)
    assert torch.isfinite(result.x_adv).all()
    assert ((result.x_adv - batch.x).abs() <= 0.1 + 1e-6).all()
    assert torch.equal(result.calls.dead, result.calls.backward)
    assert not (model.way == "constant" and result.success.any())


@pytest.mark.parametrize("ill", ["gradient", "answer"])
@pytest.mark.parametrize("name", ON_PICTURES)
def test_a_sample_whose_gradient_or_answer_is_no_number_does_not_touch_its_neighbours(name, ill):
    model, (_, batch) = Ill(ill), pictures(torch.float64)
    batch.x[2] = 0.9
    with torch.no_grad():
        batch = Batch("picture", batch.ids, batch.x, model(batch.x).argmax(1))
    configured, healthy = attack(name, LINF), [0, 1, 3, 4]
    configured.craft(model, batch)
    result = configured(model, batch)
    assert torch.isfinite(result.x_adv).all()
    assert ((result.x_adv - batch.x).abs() <= 0.1 + 1e-6).all()
    torch.testing.assert_close(
        result.x_adv[healthy], configured(model, batch.rows(healthy)).x_adv, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("name", "options"), [(name, {}) for name in ON_PICTURES] + VARIANTS)
def test_a_saturated_softmax_costs_nothing_or_leaves_dead_gradients(name, options):
    model, batch, radius = two_classes("linf")
    promise, compares = options_of(name).promise, options_of(name).compares_logits
    own = (
        promise.options.get("linf", {})
        if compares and promise.outside is not None
        else options_of(name).quick
    )
    budget = {"name": "linf", "eps": 3 * radius}
    quiet = run(name, model, batch, budget, {**own, **options})
    for values in (model.network[1].weight, model.network[1].bias):
        values.data *= 2**13  # exact: whoever only compares logits goes the same way
    loud = run(name, model, batch, budget, {**own, **options})
    assert torch.isfinite(loud.x_adv).all()
    lost = quiet.success & ~loud.success
    if compares:
        assert not lost.any()
    elif not options_of(name).universal:  # the gradients of crafting are on another account
        assert (loud.calls.backward[lost] > 0).all()
        assert torch.equal(loud.calls.dead[lost], loud.calls.backward[lost])


@pytest.mark.parametrize("queries", [3, 20, 77])
@pytest.mark.parametrize("name", [name for name in ON_PICTURES if name in QUERIES])
def test_a_black_box_is_asked_no_more_often_than_allowed(name, queries):
    network, batch = pictures()
    for model in (network, Blind("constant")):
        with torch.no_grad():
            batch = Batch("picture", batch.ids, batch.x, model(batch.x).argmax(1))
        result = run(name, model, batch, LINF, {**options_of(name).quick, "queries": queries})
        assert (result.calls.forward <= queries).all()
        assert (result.calls.backward == 0).all()


@pytest.mark.parametrize("name", ON_PICTURES)
def test_without_a_budget_it_works_or_says_what_to_add_whoever_is_wrong_already(name):
    model, batch = pictures()
    result, refusal = attempt(lambda: run(name, model, batch, None))
    assert "budget: {name: linf" in refusal if refusal else torch.isfinite(result.x_adv).all()
    wrong = Batch("picture", batch.ids, batch.x, (torch.as_tensor(batch.y) + 1) % 4)
    assert attempt(lambda: run(name, model, wrong, None))[1] == refusal


@pytest.mark.parametrize("name", ATTACKS)
def test_a_recogniser_is_attacked_or_refused_in_words(name):
    torch.manual_seed(4)
    model = Recogniser().double()
    batch = clips(model)
    taken = on_recogniser(name, model, batch)
    if taken is None:
        return
    result = run(name, model, batch, *taken)
    assert batch.lengths is not None
    assert (result.x_adv[0, int(batch.lengths[0]) :] == 0).all()
    with torch.no_grad():
        heard = model(result.x_adv, batch.lengths).texts()
    assert torch.equal(result.success, different(heard, list(batch.y)))
    assert result.success.any() or not options_of(name).searches


@pytest.mark.parametrize("name", CLIPS_ONLY)
def test_an_attack_on_clips_alone_says_so_and_keeps_every_contract_on_them(name):
    model, batch = pictures()
    for budget in CLIP_BUDGETS:
        _, refusal = attempt(lambda: run(name, model, batch, budget))  # noqa: B023
        assert "clips" in refusal
    torch.manual_seed(3)
    model = ClipNet().double()
    batch, state = clips(model), torch.random.get_rng_state()
    budget = clip_budget(name, model, batch)
    first, again = (run(name, model, batch, budget) for _ in range(2))
    assert torch.equal(first.x_adv, again.x_adv)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.x_adv.dtype == torch.float64
    assert first.x_adv.abs().max() <= 1
    with torch.no_grad():
        assert torch.equal(first.success, model(first.x_adv, batch.lengths).argmax(1) != batch.y)
    ball = load("budgets", budget["name"])
    ball = ball.function(
        BudgetContext(batch.x, "clip", batch.lengths),
        ball.parse({k: v for k, v in budget.items() if k != "name"}),
    )
    assert (ball.norm(first.x_adv - batch.x) <= ball.radius * (1 + 1e-5)).all()


@pytest.mark.parametrize("name", CLIPS_ONLY)
def test_on_clips_too_a_target_means_success_the_wrong_stay_and_dead_gradients_are_counted(name):
    torch.manual_seed(3)
    model = ClipNet().double()
    batch = clips(model)
    wrong = torch.tensor([True, False, False, True, False])
    y = torch.as_tensor(batch.y)
    budget = clip_budget(name, model, batch)
    mixed = Batch("clip", batch.ids, batch.x, torch.where(wrong, (y + 1) % 3, y), batch.lengths)
    result = run(name, model, mixed, budget)
    assert torch.equal(result.x_adv[wrong], batch.x[wrong])
    assert (result.calls.forward[wrong] == 0).all()
    for rows in ([1, 2], [4, 3, 0]):
        torch.testing.assert_close(
            run(name, model, mixed.rows(rows), budget).x_adv, result.x_adv[rows], atol=1e-5, rtol=0
        )
    options = {**options_of(name).quick, "goal": {"name": "target_class"}}
    aimed, refusal = attempt(lambda: run(name, model, batch, budget, options))
    if refusal:
        assert "target" in refusal
    else:
        with torch.no_grad():
            assert torch.equal(
                aimed.success, model(aimed.x_adv, batch.lengths).argmax(1) == aimed.goal.reference
            )
    nn.init.zeros_(model.out.weight)
    with torch.no_grad():
        same = Batch("clip", batch.ids, batch.x, predictions(model(batch.x, batch.lengths)), batch.lengths)
    deaf = run(name, model, same, budget)
    assert torch.isfinite(deaf.x_adv).all()
    assert torch.equal(deaf.calls.dead, deaf.calls.backward)
    assert not deaf.success.any()
