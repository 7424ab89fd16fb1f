"""Attacks that are to survive: searched through random transforms, judged without them and under fresh draws
of them."""

import sys
from types import ModuleType

import pytest
import torch
from exact import linear, smallest
from torch import Tensor, nn

import limen
from limen.attacks.engine.physical import OverTheAir, over_the_air
from limen.attacks.engine.run import Attack
from limen.attacks.engine.spec import AttackSpec
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.defenses.base.compose import defended
from limen.experiments.engine import run
from limen.experiments.file import read_experiment, schema
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Classifier, Model

RATE = 16_000
SHIFT = {"name": "jitter", "shift_s": 4 / RATE, "gain_db": 0, "snr_db": None}
"""Four samples earlier to four later: five draws of nine are even."""


def comb(n: int = 12) -> tuple[Classifier, Batch]:
    """Samples at even places count 1.5, at odd ones -0.5. The steepest change, that very comb, does the
    opposite after an odd shift; one that is about the same everywhere works wherever it lands."""
    layer = nn.Linear(64, 2)
    layer.weight.data = torch.stack([-torch.tensor([1.5, -0.5]).repeat(32), torch.zeros(64)])
    layer.bias.data = torch.tensor([2.0, 0.0])
    x = torch.zeros(n, 64)
    return Classifier(layer, "clip", ["a", "b"], rate_hz=RATE), Batch(
        "clip", [f"c{i}" for i in range(n)], x, torch.zeros(n, dtype=torch.long), torch.full((n,), 64)
    )


def attack(**spec) -> Attack:
    # a target makes the draws that fail count most; away from the truth those that succeed would
    return Attack.parse(
        {
            "name": "pgd",
            "goal": {"name": "target_class", "target": 1},
            "budget": {"name": "l2", "eps": 2.5},
            **spec,
        }
    )


def survived(model: Model, batch: Batch, result) -> float:
    return float(
        over_the_air(model, batch, result.x_adv, result.goal, OverTheAir(through=[SHIFT], draws=30)).mean()
    )


def test_a_change_found_through_the_transform_survives_it_and_a_plain_one_does_not():
    model, batch = comb()
    plain = attack(early_stop=False)(model, batch)
    through = attack(early_stop=False, through=[SHIFT], draws=6)(model, batch)
    assert plain.success.all()
    assert through.success.all()
    assert survived(model, batch, plain) < 0.7  # five draws of nine are even
    assert survived(model, batch, through) > 0.95


@pytest.mark.parametrize("name", ["pgd", "apgd", "mi_fgsm", "fgsm"])
def test_any_gradient_attack_takes_as_many_draws_per_gradient_as_asked(name):
    model, batch = comb(3)
    one, five = (
        attack(name=name, through=[SHIFT], draws=n, **({} if name == "fgsm" else {"steps": 4}))(model, batch)
        for n in (1, 5)
    )
    assert (five.calls.backward == 5 * one.calls.backward).all()


def test_draws_of_the_attack_go_before_those_of_a_random_victim_which_stays_as_it_was():
    model, batch = comb(2)
    noisy = defended(model, [{**SHIFT, "draws": 3}])
    steps = {"steps": 4}
    assert (attack(**steps)(noisy, batch).calls.backward == 4 * 3).all()
    assert (attack(**steps, draws=7)(noisy, batch).calls.backward == 4 * 7).all()
    assert noisy.draws == 3
    assert (
        attack(**steps, early_stop=False, draws=7)(model, batch).calls.backward == 4
    ).all()  # nothing is drawn: one is as good as seven


def test_success_is_judged_on_the_victim_as_it_is():
    model, batch = comb(4)
    result = attack(through=[SHIFT], draws=4)(model, batch)
    assert torch.equal(result.success, model(result.x_adv).argmax(1) != batch.y)
    assert torch.equal(result.clean, model(batch.x))


def test_the_first_transform_is_the_one_a_sample_meets_first():
    sys.modules["doublers"] = module = ModuleType("doublers")
    module.double, module.cut = lambda x: 2 * x, lambda x: x.clamp(max=0.3)
    try:
        model = Classifier(nn.Flatten(), "picture", list("ab"))
        x = torch.full((1, 1, 1, 2), 0.25)
        double, cut = ({"name": "bpda", "transform": f"doublers:{name}"} for name in ("double", "cut"))
        assert defended(model, [double, cut])(x).tolist() == [[pytest.approx(0.3)] * 2]
        assert defended(model, [cut, double])(x).tolist() == [[pytest.approx(0.5)] * 2]
    finally:
        del sys.modules["doublers"]


def test_clean_and_adversarial_samples_are_judged_under_the_same_draws_and_batches_change_nothing():
    model, batch = comb(5)
    result = attack(early_stop=False)(model, batch)
    options = OverTheAir(through=[SHIFT], draws=9)
    whole = over_the_air(model, batch, result.x_adv, result.goal, options)
    assert torch.equal(whole, over_the_air(model, batch, result.x_adv, result.goal, options))
    assert (over_the_air(model, batch, batch.x, result.goal, options) == 0).all()
    for i in range(5):
        row = torch.tensor([i])
        alone = over_the_air(model, batch.rows([i]), result.x_adv[i : i + 1], result.goal.rows(row), options)
        assert float(alone) == float(whole[i])
    assert len(whole.unique()) > 1


def test_a_universal_perturbation_can_be_crafted_through_transforms():
    model, batch = comb()
    shares = []
    for through in ([], [SHIFT]):
        crafted = attack(
            name="uap", inner={"name": "pgd", "steps": 10}, rate=1.0, epochs=2, through=through, draws=6
        )
        crafted.craft(model, batch.rows(range(6)))
        shares.append(survived(model, batch.rows(range(6, 12)), crafted(model, batch.rows(range(6, 12)))))
    assert shares[0] < 0.7
    assert shares[1] > 0.95


def test_several_models_are_attacked_through_transforms_and_attacks_on_one_classifier_say_so():
    model, batch = comb(2)
    both = Ensemble([model, comb()[0]])
    assert attack(through=[SHIFT], draws=2)(both, batch, victim=model).success.all()
    with pytest.raises(UserError, match="needs one classifier"):
        attack(name="deepfool", goal="untargeted", through=[SHIFT])(both, batch, victim=model)


class Echo(nn.Module):
    """Answers by the mean of the clip."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-x.mean(1), x.mean(1)], 1)


def test_a_search_in_double_precision_goes_through_transforms_too():
    batch = Batch(
        "clip", ["a"], torch.full((1, 3200), -0.01), torch.zeros(1, dtype=torch.long), torch.tensor([3200])
    )
    quiet = {"name": "room", "low_hz": None, "snr_db": None}
    result = attack(precision="double", steps=3, through=[quiet], draws=2)(
        Classifier(Echo(), "clip", ["a", "b"], rate_hz=RATE), batch
    )
    assert result.x_adv.dtype == torch.float32
    assert result.success.all()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"through": ["rooom"]}, 'attack pgd: through.0.*no defense "rooom". Did you mean "room"'),
        ({"through": [{"name": "room", "size": 3}]}, 'there is no option "size"'),
        ({"through": "room"}, "through: input should be a valid list"),
        ({"draws": 0}, "draws: input should be greater than or equal to 1"),
    ],
)
def test_a_mistake_in_what_lies_between_is_said_when_the_attack_is_read(spec, words):
    with pytest.raises(UserError, match=words):
        attack(**spec)


def test_experiment_files_know_the_keys_and_cells_without_them_keep_their_ids():
    plain = AttackSpec.parse({"name": "pgd"}).resolved()
    assert "through" not in plain
    assert "draws" not in plain
    full = AttackSpec.parse(
        {"name": "pgd", "through": ["room", {"name": "jitter", "shift": 0.1}], "draws": 4}
    ).resolved()
    assert [one["name"] for one in full["through"]] == ["room", "jitter"]
    assert full["through"][0]["distance_m"] == [0.5, 3.0]
    assert full["draws"] == 4
    assert AttackSpec.parse(full).resolved() == full
    assert all(
        {"through", "draws"} <= set(one["properties"]) for one in schema()["$defs"]["attacks"]["oneOf"]
    )


def test_the_task_accuracy_judges_clean_and_adversarial_samples_under_fresh_draws(tmp_path):
    jitter = {"name": "jitter", "rotation_deg": 20}
    content = {
        "audit": False,
        "tasks": [
            {
                "task": {"name": "accuracy", "over_the_air": {"through": [jitter], "draws": 4}},
                "nets": [{"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 6}}],
                "attacks": [
                    None,
                    {
                        "name": "pgd",
                        "steps": 5,
                        "budget": {"name": "linf", "eps": 0.3},
                        "through": [jitter],
                        "draws": 2,
                    },
                ],
                "metrics": [],
            }
        ],
    }
    clean, attacked = run(read_experiment(content, tmp_path / "air.yaml"), tmp_path / "run")["cells"]
    assert attacked["labels"]["attack"] == "pgd through jitter"
    assert "over_the_air" not in clean["summary"]["columns"]
    columns = attacked["summary"]["columns"]
    assert columns["over_the_air"]["n"] == 6
    assert columns["over_the_air"]["mean"] > columns["clean_over_the_air"]["mean"]
    assert columns["over_the_air"]["high"] <= 1
    assert columns["backward_calls"]["mean"] == 5 * 2


def test_the_package_itself_judges_over_the_air():
    model, batch = comb(3)
    result = attack(early_stop=False)(model, batch)
    share = limen.over_the_air(model, batch, result, [SHIFT], draws=9)
    assert torch.equal(
        share, over_the_air(model, batch, result.x_adv, result.goal, OverTheAir(through=[SHIFT], draws=9))
    )


class Squared(nn.Module):
    """A linear model behind a front that rounds to a grid: its gradient is zero everywhere."""

    def __init__(self, layer: nn.Module, front):
        super().__init__()
        self.layer, self.front = layer, front

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.front(x))


STEPS = 32


def rounded(x: Tensor) -> Tensor:
    return (x * STEPS).round() / STEPS


def nearest_level(x: Tensor) -> Tensor:
    """The same by argmax over the levels: not even round's gradient is there."""
    levels = torch.linspace(0, 1, STEPS + 1, dtype=x.dtype)
    return levels[(-(x[..., None] - levels).abs()).argmax(-1)] + 0 * x


def soft_level(x: Tensor) -> Tensor:
    """Softmax in place of argmax."""
    levels = torch.linspace(0, 1, STEPS + 1, dtype=x.dtype)
    return ((-((x[..., None] - levels).square()) * 2000).softmax(-1) * levels).sum(-1)


@pytest.fixture
def fronts():
    sys.modules["fronts_of_the_test"] = module = ModuleType("fronts_of_the_test")
    module.rounded, module.nearest_level, module.soft_level = rounded, nearest_level, soft_level
    yield "fronts_of_the_test"
    del sys.modules["fronts_of_the_test"]


@pytest.mark.parametrize("front", [rounded, nearest_level])
@pytest.mark.parametrize("stand_in", [None, "soft_level"])
@pytest.mark.parametrize("name", ["pgd", "apgd", "mi_fgsm"])
def test_plain_gradients_die_at_a_front_that_rounds_and_straight_through_ones_live(
    fronts, front, stand_in, name
):
    bare, batch, weights, gaps = linear()
    radius = float(smallest(weights, gaps, batch.y, 1.0).max())
    spec = {"name": name, "budget": {"name": "linf", "eps": 1.2 * radius + 1 / STEPS}}
    if name == "pgd":
        spec["random_start"] = False
    hidden = Classifier(Squared(bare.network, front), "picture", bare.classes)
    blind = Attack.parse(spec)(hidden, batch)
    assert torch.equal(blind.calls.dead, blind.calls.backward)
    assert not blind.success.all()
    bpda = {
        "name": "bpda",
        "transform": f"{fronts}:{front.__name__}",
        "gradient": stand_in and f"{fronts}:{stand_in}",
    }
    model = defended(bare, [bpda])
    torch.testing.assert_close(model(batch.x), hidden(batch.x))  # the same answers
    seeing = Attack.parse(spec)(model, batch, victim=hidden)
    assert seeing.success.all()
    assert (seeing.calls.dead == 0).all()


def test_a_front_that_is_not_there_is_named():
    with pytest.raises(UserError, match="defense bpda 'no_such_module:front' was not found"):
        defended(comb()[0], [{"name": "bpda", "transform": "no_such_module:front"}])
