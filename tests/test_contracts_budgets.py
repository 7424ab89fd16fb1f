"""What every budget keeps, whichever family it belongs to. A new file in limen/budgets is tested here without
a line being added: its bound is that of its `example`."""

from dataclasses import replace

import pytest
import torch
from awkward import ClipNet, clips, pictures
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.attacks.engine.storage import quantise
from limen.budgets.families.budget import Budget, BudgetContext
from limen.budgets.families.options import bounded, budget_info, declared, default_budget, make_budget
from limen.core import seeds
from limen.core.components import load, names, parse
from limen.core.errors import UserError
from limen.core.types import BOUNDS, Batch, Kind
from limen.models.base.model import Model

EVERY = names("budgets")
ON = [(name, kind) for name in EVERY for kind in declared(load("budgets", name)).kinds]
SLACK = 1e-6


def example(name: str) -> dict[str, object]:
    return {"name": name, **load("budgets", name).options.example}


def samples(kind: Kind) -> tuple[Model, Batch]:
    torch.manual_seed(0)
    if kind == "picture":
        return pictures(torch.float64)
    model = ClipNet().double()
    return model, clips(model)


def around(name: str, batch: Batch, x: Tensor | None = None, **changed: object) -> Budget:
    streams = seeds.generators(0, batch.ids, "budget")
    context = BudgetContext(
        batch.x if x is None else x, batch.kind, batch.lengths, 16_000, batch.ids, streams
    )
    return make_budget(parse("budgets", example(name) | changed), context)


def noise(batch: Batch, seed: int = 0) -> Tensor:
    drawn = torch.randn(batch.x.shape, generator=torch.Generator().manual_seed(seed), dtype=batch.x.dtype)
    return drawn if batch.lengths is None else drawn * (torch.arange(64) < batch.lengths[:, None])


@pytest.mark.parametrize("name", EVERY)
def test_it_declares_its_bound_and_how_to_put_it_in_words(name):
    component = load("budgets", name)
    facts = declared(component)
    assert facts.bound in component.options.model_fields
    assert facts.text.count("{}") == facts.sentence.count("{}") == 1
    assert facts.heading
    assert facts.kinds
    info = budget_info(parse("budgets", example(name)))
    assert info is not None
    assert info["value"] == component.options.example[facts.bound]
    assert "{}" not in info["text"] + info["sentence"]
    assert f"{info['value']:.3g}" in info["text"]


@pytest.mark.parametrize("name", EVERY)
def test_the_column_that_measures_it_is_one_of_a_metric(name):
    column = declared(load("budgets", name)).column
    columns = {c for metric in names("metrics") for c in load("metrics", metric).parse({}).columns()}
    assert column is None or column in columns


@pytest.mark.parametrize("name", EVERY)
def test_nothing_may_change_at_the_value_that_says_so(name):
    facts = declared(load("budgets", name))
    rest = {k: v for k, v in example(name).items() if k != facts.bound}
    if facts.nothing_at is not None:
        assert bounded(rest, facts.nothing_at) is None
        with pytest.raises(UserError):
            bounded(rest, facts.nothing_at - 1)
    with pytest.raises(UserError, match=f"leave {facts.bound} out"):
        bounded(example(name), 1.0)


@pytest.mark.parametrize(("name", "kind"), ON)
def test_a_projection_is_inside_and_leaves_what_is_inside_and_what_does_not_change(name, kind):
    _, batch = samples(kind)
    budget = around(name, batch)
    delta = noise(batch)
    once = budget.project(delta)
    assert budget.inside(once, SLACK).all()
    assert (budget.norm(delta) > budget.radius).any()
    torch.testing.assert_close(budget.project(once), once)
    assert (budget.project(torch.zeros_like(delta)) == 0).all()
    assert (once[delta == 0] == 0).all()


@pytest.mark.parametrize(("name", "kind"), ON)
def test_a_start_is_inside_the_range_and_the_same_alone(name, kind):
    _, batch = samples(kind)
    budget = around(name, batch)
    start = budget.start(batch.x, seeds.generators(0, batch.ids), batch.lengths)
    assert budget.inside(start, SLACK).all()
    assert (start.flatten(1) != 0).any(1).all()
    for i in range(len(batch)):
        one = batch.rows([i])
        n = one.x.shape[-1] if one.lengths is None else int(one.lengths[0])
        assert (start[i, ..., n:] == 0).all()
        one = replace(one, x=one.x[..., :n])
        alone = around(name, one).start(one.x, seeds.generators(0, one.ids), None)
        torch.testing.assert_close(alone[0], start[i, ..., :n])


@pytest.mark.parametrize(("name", "kind"), ON)
def test_rows_and_clips_without_padding_get_the_same_answers(name, kind):
    _, batch = samples(kind)
    budget, delta = around(name, batch), noise(batch)
    for i in range(len(batch)):
        n = batch.x.shape[-1] if batch.lengths is None else int(batch.lengths[i])
        one = budget.rows(torch.tensor([i])).cut(n)
        for answer in (Budget.norm, Budget.project, Budget.fill, Budget.spread):
            all_rows = getattr(budget, answer.__name__)(delta)[i]
            alone = getattr(one, answer.__name__)(delta[i : i + 1, ..., :n])[0]
            torch.testing.assert_close(alone, all_rows if all_rows.dim() == 0 else all_rows[..., :n])
        step = one.step(delta[i : i + 1, ..., :n], one.radius)[0]
        torch.testing.assert_close(step, budget.step(delta, budget.radius)[i, ..., :n])


@pytest.mark.parametrize(("name", "kind"), ON)
def test_a_filled_change_has_exactly_the_size_of_the_bound(name, kind):
    _, batch = samples(kind)
    budget = around(name, batch)
    low, high = BOUNDS[kind]
    for full in (budget.fill(noise(batch)), budget.spread(noise(batch))):
        assert budget.inside(full, SLACK).all()
        if declared(load("budgets", name)).scalable:
            assert (budget.norm(full) >= (1 - 2e-3) * budget.radius).all()
    assert (budget.fill(torch.zeros_like(batch.x)) == 0).all()
    in_range = (batch.x + budget.project(noise(batch))).clamp(low, high)
    assert budget.inside(
        in_range - batch.x, SLACK
    ).all()  # the range never makes a change larger than allowed


@pytest.mark.parametrize(("name", "kind"), ON)
def test_a_step_rises_and_a_gradient_of_zero_makes_none(name, kind):
    _, batch = samples(kind)
    budget, gradient = around(name, batch), noise(batch)
    assert ((budget.step(gradient, budget.radius) * gradient).flatten(1).sum(1) > 0).all()
    assert (budget.step(torch.zeros_like(gradient), budget.radius) == 0).all()


@pytest.mark.parametrize(("name", "kind"), ON)
def test_a_stronger_bound_allows_all_that_a_weaker_one_does(name, kind):
    _, batch = samples(kind)
    facts, value = declared(load("budgets", name)), load("budgets", name).options.example
    bound = float(value[facts.bound])
    step = abs(bound) / 2 if facts.larger_is_stronger else -abs(bound) / 2
    weak, strong = (around(name, batch, **{facts.bound: b}) for b in (bound, bound + step))
    assert strong.inside(weak.project(noise(batch)), SLACK).all()
    assert not weak.inside(strong.fill(noise(batch)), SLACK).all()


@pytest.mark.parametrize("store", ["float", "int16", "uint8"])
@pytest.mark.parametrize(("name", "kind"), ON)
def test_what_attacks_store_is_inside_the_budget_as_stored(name, kind, store):
    """With the clean samples on the grid of the files, in double precision."""
    if store == {"picture": "int16", "clip": "uint8"}[kind]:
        return  # no such files
    model, batch = samples(kind)
    batch = replace(batch, x=quantise(batch.x, store))
    for search in ("pgd", "random_noise"):
        found = Attack.parse({"name": search, "budget": example(name)})(model, batch, store=store)
        assert torch.equal(found.x_adv, quantise(found.x_adv, store))
        assert around(name, batch).inside(found.x_adv - batch.x, 1e-12 if store != "float" else SLACK).all()
        assert (found.x_adv != batch.x).flatten(1).any(1).all() or search == "pgd"
        for i, n in enumerate(batch.lengths.tolist() if batch.lengths is not None else []):
            assert (found.x_adv[i, n:] == 0).all()


@pytest.mark.parametrize(("name", "kind"), ON)
def test_pgd_gives_the_same_alone_as_in_a_batch(name, kind):
    model, batch = samples(kind)
    attack = Attack.parse({"name": "pgd", "steps": 5, "budget": example(name)})
    together = attack(model, batch).x_adv
    for i in range(len(batch)):
        alone = attack(model, batch.rows([i])).x_adv
        torch.testing.assert_close(alone[0], together[i], atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", EVERY)
def test_a_kind_of_samples_that_it_cannot_limit_is_refused_with_those_that_can(name):
    for kind in {"picture", "clip"} - set(declared(load("budgets", name)).kinds):
        with pytest.raises(
            UserError, match=f"The budget {name} is for .*; got {kind}s. Budgets for {kind}s: "
        ):
            around(name, samples(kind)[1])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("search", ["square", "auto_attack", "uap", "universal", "uap_hc"])
def test_an_attack_that_needs_a_norm_takes_the_budget_or_refuses_it_in_words(name, search):
    model, batch = samples("picture")
    few: dict[str, object] = {
        "square": {"queries": 8},
        "auto_attack": {"steps": 2, "queries": 4},
        "uap": {"epochs": 1, "inner": {"name": "pgd", "steps": 2}},
    }.get(search, {"epochs": 1})
    attack = Attack.parse({"name": search, "budget": example(name), **few})
    budget = around(name, batch)

    def crafted_and_run() -> Tensor:
        attack.craft(model, batch)
        return attack(model, batch).x_adv

    if budget.norm_name or (search in ("square", "auto_attack") and budget.coordinatewise):
        assert budget.inside(crafted_and_run() - batch.x, SLACK).all()
        return
    with pytest.raises(UserError, match=rf"needs an L-inf, L2, L1 or L0 budget.*got {name}\. Use pgd\."):
        crafted_and_run()


@pytest.mark.parametrize("kind", ["picture", "clip"])
def test_the_default_budget_of_a_kind_limits_samples_of_that_kind(kind):
    _, batch = samples(kind)
    assert kind in declared(parse("budgets", default_budget(kind))[0]).kinds
    assert around(str(default_budget(kind)["name"]), batch).norm_name
