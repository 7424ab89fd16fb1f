"""Attacks that look inside: logits heated and cooled, and pictures that become others within the network."""

from itertools import pairwise

import pytest
import torch
from exact import linear, run
from torch import Tensor, nn

from limen.attacks.engine.run import Attack
from limen.core.components import load
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.guide import GuideGoal
from limen.models.base.ensemble import Ensemble
from limen.models.base.load import load_model
from limen.models.base.model import Classifier, Model
from limen.perception.similarity import pass_score

ANY = {"name": "hot_cold", "min_pass": -1.0, "halvings": 12}


def digits(n: int) -> Batch:
    component = load("data", "digits")
    return component.function(component.parse({"limit": n})).all()


def along(weights: Tensor, logits: Tensor, hot: Tensor, cold: Tensor) -> Tensor:
    """(n,) length of the way along eta to where the hot class draws level with the cold one, in closed
    form."""
    rows = torch.arange(len(logits))
    z_h, z_c, w_h, w_c = logits[rows, hot], logits[rows, cold], weights[hot], weights[cold]
    eta = z_h.abs()[:, None] * w_h - z_c.abs()[:, None] * w_c
    return (z_c - z_h) / ((w_h - w_c) * eta).sum(1) * eta.norm(dim=1)


def test_on_a_linear_model_it_stops_where_the_hot_class_draws_level_with_the_cold_one():
    model, batch, weights, _ = linear(classes=2)
    result = run(model, batch, **ANY)
    expected = along(weights, result.clean, 1 - batch.y, batch.y)
    assert result.success.all()
    torch.testing.assert_close((result.x_adv - batch.x).flatten(1).norm(dim=1), expected, rtol=1e-3, atol=0)
    assert (result.calls.backward == 1).all()


def test_a_target_is_heated_and_the_class_of_the_picture_cooled():
    model, batch, weights, _ = linear(classes=3, d=30)
    result = run(model, batch, **ANY, goal={"name": "target_class", "target": 1})
    eta = (
        result.clean[:, 1].abs()[:, None] * weights[1]
        - result.clean.amax(1).abs()[:, None] * weights[result.clean.argmax(1)]
    )
    moved = (result.x_adv - batch.x).flatten(1)
    inside = (
        result.success
        & (result.clean.argmax(1) != 1)
        & (result.x_adv > 0).flatten(1).all(1)
        & (result.x_adv < 1).flatten(1).all(1)
    )
    assert inside.sum() >= 2
    torch.testing.assert_close(
        torch.cosine_similarity(moved, eta)[inside], torch.ones(int(inside.sum())).double()
    )


def test_more_hot_classes_never_make_the_change_larger():
    model, batch, _, _ = linear(classes=5, d=30)
    sizes = []
    for hot_classes in (1, 2, 4, 9):
        result = run(model, batch, **ANY, hot_classes=hot_classes)
        size = (result.x_adv - batch.x).flatten(1).norm(dim=1)
        sizes.append(torch.where(result.success, size, torch.inf))
    for fewer, more in pairwise(sizes):
        assert (more <= fewer * (1 + 1e-9)).all()


def test_what_would_be_noticed_is_not_returned():
    model, batch = load_model("cnn"), digits(30)
    free = run(model, batch, name="hot_cold", min_pass=-1.0)
    kept = run(model, batch, name="hot_cold", min_pass=0.95)
    changed = (kept.x_adv != batch.x).flatten(1).any(1)
    assert (pass_score(kept.x_adv, batch.x) >= 0.95).all()
    assert torch.equal(changed & kept.success, changed)  # nothing is changed in vain
    assert 0 < kept.success.sum() < free.success.sum()


def test_a_goal_that_names_no_single_class_is_refused():
    model, batch, _, _ = linear()
    with pytest.raises(UserError, match="raises one class"):
        run(model, batch, **ANY, goal={"name": "distribution"})


GUIDES = {"name": "digits", "split": "train"}


def guided(model: Model, batch: Batch, search: dict | None = None, seed: int = 0, **options):
    spec = {"name": "pgd", "steps": 20, "budget": {"name": "linf", "eps": 0.3}, **(search or {})}
    return Attack.parse({**spec, "goal": {"name": "guide", "data": GUIDES, **options}})(
        model, batch, seed=seed
    )


def posed(model: Model, batch: Batch, **options):
    return Attack.parse(
        {
            "name": "pgd",
            "budget": {"name": "linf", "eps": 0.3},
            "goal": {"name": "guide", "data": GUIDES, **options},
        }
    ).pose(model, batch)


def test_the_loss_is_minus_the_share_of_the_squared_distance_to_the_guides_features():
    model, batch = load_model("mlp"), digits(6)
    problem = posed(model, batch, layer="1")
    goal = problem.goal
    assert isinstance(goal, GuideGoal)
    component = load("data", "digits")
    pool = component.function(component.parse({"split": "train", "limit": 200})).all()
    guides = pool.x[[pool.ids.index(name) for name in goal.ids]]
    layer = dict(model.named_modules())["network.network.1"]
    seen = []
    hook = layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    x_adv = (batch.x + 0.1).clamp(0, 1)
    with torch.no_grad():
        answers = [model(x) for x in (guides, batch.x, x_adv)]
    hook.remove()
    expected = -(seen[2] - seen[0]).square().sum(1) / (seen[1] - seen[0]).square().sum(1)
    torch.testing.assert_close(problem.evaluate(x_adv)[0], expected)
    assert torch.equal(goal.reference, answers[0].argmax(1))
    assert (pool.y[[pool.ids.index(name) for name in goal.ids]] != batch.y).all()
    torch.testing.assert_close(problem.evaluate(batch.x)[0], -torch.ones(6))


def test_inside_the_network_the_picture_comes_close_to_its_guide_and_the_answer_follows():
    model, batch = load_model("cnn"), digits(20)
    result = guided(model, batch)
    assert result.success.float().mean() > 0.8
    assert torch.equal(result.success, result.adversarial.argmax(1) == result.goal.reference)
    distance = torch.tensor(result.notes["guide_distance"])
    assert (distance < 0.7).all()
    assert distance.median() < 0.4
    assert len(set(result.notes["guide"])) > 5


def test_a_sample_has_the_same_guide_whatever_batch_it_is_in():
    model, batch = load_model("mlp"), digits(5)
    together = guided(model, batch)
    for i in range(len(batch)):
        alone = guided(model, batch.rows([i]))
        assert alone.notes["guide"][0] == together.notes["guide"][i]
        torch.testing.assert_close(alone.x_adv[0], together.x_adv[i], atol=1e-5, rtol=0)
    assert guided(model, batch, seed=1).notes["guide"] != together.notes["guide"]


def test_the_guides_class_or_the_guide_itself_can_be_chosen():
    model, batch = load_model("mlp"), digits(5)
    component = load("data", "digits")
    pool = component.function(component.parse({"split": "train", "limit": 200})).all()
    names = guided(model, batch, guide=7).notes["guide"]
    assert all(int(pool.y[pool.ids.index(name)]) == 7 for name in names)
    assert guided(model, batch, id=pool.ids[3]).notes["guide"] == [pool.ids[3]] * 5


@pytest.mark.parametrize(
    "search",
    [{"name": "ddn"}, {"name": "cw_l2", "steps": 40, "search_steps": 5, "c_init": 1.0, "confidence": 0.0}],
)
def test_searches_for_small_changes_go_exactly_as_near_as_asked(search):
    result = guided(load_model("mlp"), digits(8), {**search, "budget": None, "steps": 60}, within=0.5)
    assert torch.tensor(result.notes["guide_distance"]).median() == pytest.approx(0.5, abs=0.02)


def test_the_model_keeps_no_hook_and_other_searches_serve_the_goal_too():
    model, batch = load_model("mlp"), digits(4)
    for search in ({"name": "apgd"}, {"name": "mi_fgsm"}, {"name": "bim"}):
        result = guided(model, batch, search)
        assert (torch.tensor(result.notes["guide_distance"]) < 1).all()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_mistakes_about_guides_are_told_in_words():
    model, batch = load_model("mlp"), digits(3)
    with pytest.raises(UserError, match=r'no layer "conv9". Its layers are: network.network.0'):
        guided(model, batch, layer="conv9")
    with pytest.raises(UserError, match="no sample 'nobody'"):
        guided(model, batch, id="nobody")
    with pytest.raises(UserError, match="none can guide a sample"):
        guided(model, batch, guide=99)
    with pytest.raises(UserError, match="need a single model"):
        guided(Ensemble([model, load_model("cnn")]), batch)
    wide = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(9, 10)), "picture", [str(i) for i in range(10)])
    with pytest.raises(UserError, match="shape of the samples"):
        guided(wide, Batch("picture", ["a"], torch.rand(1, 1, 3, 3), torch.zeros(1, dtype=torch.long)))
    with pytest.raises(UserError, match="no linear layer"):
        guided(
            Classifier(nn.Sequential(nn.Flatten(), nn.Softmax(1)), "picture", [str(i) for i in range(64)]),
            batch,
        )
    with pytest.raises(UserError, match='no data set "digit"'):
        Attack.parse({"name": "pgd", "goal": {"name": "guide", "data": {"name": "digit"}}})
    clips = Classifier(nn.Linear(40, 2), "clip", ["a", "b"])
    with pytest.raises(UserError, match="classifier of pictures"):
        guided(
            clips,
            Batch("clip", ["a"], torch.rand(1, 40), torch.zeros(1, dtype=torch.long), torch.tensor([40])),
        )
