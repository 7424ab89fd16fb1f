"""The audit tells honest models from masked ones, on nets whose tricks are known."""

from pathlib import Path

import pytest
import torch
from torch import nn

from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import Dataset
from limen.experiments.engine import run
from limen.experiments.file import Experiment, read_experiment
from limen.experiments.plan import plan
from limen.models.base.model import Classifier
from limen.report.checks.run import run_checks
from limen.report.run import CellResult, read_run
from limen.tasks.audit import Audit, audit
from limen.tasks.base.cell import Cell

BUDGET = {"name": "linf", "eps": 0.3}
NET = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 8}}


def linear(x, scale=1.0):
    """Dark against light: minus and plus the mean of the picture above 1/2."""
    level = scale * (x.flatten(1).mean(1) - 0.5)
    return torch.stack([-level, level], 1)


@pytest.fixture(autouse=True)
def the_same_draws():
    """For nets that draw from the global stream: how near the boundary a picture falls must not hang on the
    tests before."""
    torch.manual_seed(0)


class Plain(nn.Module):
    def forward(self, x):
        return linear(x)


class Rounding(nn.Module):
    """Behind steps of 1/4: right as it stands, and its gradient is zero everywhere."""

    def forward(self, x):
        return linear((x * 4).round() / 4)


class Saturated(nn.Module):
    """Gives probabilities of 0 and 1 for logits."""

    def forward(self, x):
        return linear(x, 1e4).softmax(1)


class Shattered(nn.Module):
    """A ripple too small to change an answer and too steep for the gradient to show anything else."""

    def forward(self, x):
        return linear(x + 0.02 * torch.sin(3000 * x))


class Noisy(nn.Module):
    """Draws from the global stream and tells nobody."""

    def forward(self, x):
        return linear(x + 0.01 * torch.randn_like(x))


class Root(nn.Module):
    """sqrt(x)^2: the same as x, but for its gradient at a black pixel."""

    def forward(self, x):
        return linear(x.sqrt() ** 2)


class Gradient(torch.autograd.Function):
    """The identity, with a gradient that is told how to look."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor.view(-1, 1, 1, 1), None


class Told(nn.Module):
    """The plain net with its gradient times factor(x), one number per sample."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return linear(Gradient.apply(x, self.factor))


def exploding(x):
    return torch.where(x.flatten(1).mean(1) > 0.8, 1e9, 1.0)


def right_at_the_start(x):
    """Honest where the first pixel is as in the data, backwards everywhere else."""
    return torch.where(x[:, 0, 0, 0] == 0.5, 1.0, -1.0)


class Nervous(nn.Module):
    """Falls for any roughness, and has no gradient that would say so."""

    def forward(self, x):
        rough = (x[:, 0, 1:].flatten(1).std(1) > 0.06).float()[:, None]
        return linear((x * 4).round() / 4) * (1 - 2 * rough)


def cell(tmp_path, network, attack=None, others=None, random=False):
    """32 grey pictures at several distances from the boundary; the first pixel of each is 1/2, the second
    black."""
    model = Classifier(network, "picture", ["dark", "light"])
    model.random = random
    generator = torch.Generator().manual_seed(0)
    samples = []
    for i, level in enumerate(torch.linspace(0.05, 0.95, 32)):
        x = level + 0.1 * (torch.rand(1, 8, 8, generator=generator) - 0.5)
        x[0, 0, 0], x[0, 0, 1] = 0.5, 0.0
        samples.append(Sample(f"s{i}", x.clamp(0, 1), int(x.mean() > 0.5)))
    data = Dataset("greys", "picture", list(range(32)), lambda i: samples[i], ["dark", "light"], None)
    spec = attack or {"name": "pgd", "budget": BUDGET}
    return Cell(
        model,
        model,
        model,
        data,
        Attack.parse(spec),
        [],
        tmp_path,
        lambda n: data,
        lambda n: data,
        open=lambda spec: Classifier(others or Plain(), "picture", spec["classes"]),
    )


def checks_of(result):
    """What the report makes of an audit alone: the names of the flags raised, and all their sentences."""
    meta = {
        "id": "a",
        "task": "audit",
        "task_info": {"title": "attack sanity checks", "diagnostic": True},
        "labels": {"net": "greys", "attack": "audit"},
        "status": "done",
        "output": "class",
    }
    found = [
        c
        for c in run_checks([CellResult(Path("nowhere"), meta, {"n": result["n"], "result": result})])
        if c.status == "flag"
    ]
    return [c.name for c in found], " ".join(flag for c in found for flag in c.flags)


OTHER = Audit.model_construct(queries=300, others=[{"name": "other", "classes": ["dark", "light"]}])
"""One other net to borrow an attack from: the plain one."""
GUESSING, LIVING, STEPS, NOISE, RANDOM, LOSS, UNBOUNDED = (
    "Gradients beat other searches",
    "Gradients are finite and not zero",
    "Many steps beat one",
    "Noise control",
    "Random models are averaged",
    "The loss rises with the steps",
    "Unbounded attacks always succeed",
)


@pytest.mark.parametrize(
    ("network", "raised", "words"),
    [
        (Plain(), set(), ""),
        (Noisy(), {RANDOM}, "evaluated twice, its output differs on 100.0\u202f% of the samples"),
        (Told(exploding), {LIVING}, "gradients explode: the largest is"),
        (
            Told(lambda x: -torch.ones(len(x))),
            {GUESSING, LOSS, UNBOUNDED},
            "the attack of another net (other) ends with",
        ),
        (Told(right_at_the_start), {GUESSING, STEPS, LOSS, UNBOUNDED}, "one step ends with"),
        (Rounding(), {GUESSING, LIVING, LOSS, UNBOUNDED}, "100.0\u202f% of the gradients were zero."),
        (Saturated(), {GUESSING, LIVING, LOSS, UNBOUNDED}, "100.0\u202f% of the gradients were zero."),
    ],
    ids=["plain", "noisy", "exploding", "backwards", "right at the start", "rounding", "saturated"],
)
def test_a_trick_raises_its_flags_and_no_other_and_an_honest_net_none(tmp_path, network, raised, words):
    names, said = checks_of(audit(cell(tmp_path, network), OTHER).result)
    assert set(names) == raised
    assert words in said


@pytest.mark.parametrize(
    ("network", "raised", "spared", "words"),
    [
        # how much else they spoil depends on the pictures
        (Shattered(), {GUESSING, UNBOUNDED}, {LIVING, NOISE, RANDOM}, "a search without gradients ends with"),
        (Root(), {LIVING}, {NOISE, RANDOM, LOSS}, "100.0\u202f% of the gradients were not finite"),
        (
            Nervous(),
            {NOISE, LIVING},
            {RANDOM, STEPS},
            "noise of the same budget ends with 96.9\u202f% at the goal",
        ),
    ],
    ids=["shattered", "root", "nervous"],
)
def test_a_trick_raises_its_flags_and_spares_those_of_other_tricks(tmp_path, network, raised, spared, words):
    names, said = checks_of(audit(cell(tmp_path, network), OTHER).result)
    assert raised <= set(names)
    assert not spared & set(names)
    assert words in said


def test_zero_exploding_and_broken_gradients_are_told_apart(tmp_path):
    said = {
        name: checks_of(audit(cell(tmp_path, network), Audit(queries=2)).result)[1]
        for name, network in (("zero", Rounding()), ("explode", Told(exploding)), ("not finite", Root()))
    }
    for name, words in said.items():
        assert [
            other for other in said if f"gradients were {other}" in words or f"gradients {other}" in words
        ] == [name]


def test_a_model_that_calls_itself_random_is_flagged_only_without_draws(tmp_path):
    for draws, raised in ((1, [RANDOM]), (4, [])):
        noisy = cell(tmp_path, Noisy(), random=True)
        noisy.model.draws = draws
        result = audit(noisy, Audit(queries=2)).result
        assert (result["random"], result["draws"]) == (True, draws)
        assert checks_of(result)[0] == raised


def test_another_net_that_knows_other_classes_lends_no_attack(tmp_path):
    strange = Audit.model_construct(queries=2, others=[{"name": "other", "classes": ["left", "right"]}])
    result = audit(cell(tmp_path, Plain()), strange).result
    assert result["others"] == []
    assert "transfer" not in result["probes"]


def test_gradients_behind_the_goal_do_not_count(tmp_path):
    """Towards a class that is reached with certainty the gradient vanishes; that hides nothing."""
    steep = nn.Module()
    steep.forward = lambda x: linear(x, 1e3)
    goal = {"name": "target_class", "target": 1}
    result = audit(
        cell(tmp_path, steep, {"name": "pgd", "budget": {"name": "linf", "eps": 1.0}, "goal": goal}),
        Audit(queries=2),
    ).result
    assert result["probes"]["many_steps"] == 1
    assert result["zero_gradients"] == 0


def test_an_honest_net_is_fooled_as_far_as_the_budget_goes_and_wholly_beyond(tmp_path):
    honest = cell(tmp_path, Plain())
    result = audit(honest, Audit()).result
    batch = honest.data.all()
    # towards the boundary every pixel moves by 0.3, or to the edge of the range
    light = batch.y.view(-1, 1, 1, 1) == 1
    farthest = torch.where(light, (batch.x - 0.3).clamp_min(0), (batch.x + 0.3).clamp_max(1))
    within = float((linear(farthest).argmax(1) != batch.y).double().mean())
    assert result["probes"]["many_steps"] == result["probes"]["one_step"] == pytest.approx(within)
    assert result["probes"]["anything_allowed"] == 1
    assert result["probes"]["no_gradients"] <= within
    assert result["probes"]["noise"] < within
    assert result["probes"]["clean"] == result["differs"] == 0
    assert result["zero_gradients"] == result["broken_gradients"] == 0
    assert result["loss"] == sorted(result["loss"])
    assert (result["steps"][0], result["steps"][-1], result["n"]) == (0, 40, 32)


def test_rounding_gives_dead_gradients_and_a_search_without_gradients_wins(tmp_path):
    result = audit(cell(tmp_path, Rounding()), Audit()).result
    assert result["zero_gradients"] == 1
    assert result["gradient_norms"] == []
    assert result["probes"]["no_gradients"] > result["probes"]["many_steps"]
    assert result["probes"]["anything_allowed"] < 1


def test_every_probe_is_judged_per_sample(tmp_path):
    outcome = audit(cell(tmp_path, Plain()), Audit(samples=8))
    assert [row["id"] for row in outcome.rows] == [f"s{i}" for i in range(8)]
    assert all(isinstance(row[name], bool) for row in outcome.rows for name in outcome.result["probes"])


def test_an_attack_without_a_budget_is_probed_under_that_of_its_kind_of_sample(tmp_path):
    bare, bounded = ({"name": "deepfool"}, {"name": "pgd", "budget": {"name": "linf", "eps": 8 / 255}})
    same = [audit(cell(tmp_path, Plain(), spec), Audit(queries=10)).result for spec in (bare, bounded)]
    assert same[0] == same[1]
    assert same[0]["loss"][-1] > same[0]["loss"][0]


def test_no_attack_is_a_clear_mistake(tmp_path):
    nothing = cell(tmp_path, Plain())
    nothing.attack = None
    with pytest.raises(UserError, match="needs an attack"):
        audit(nothing, Audit())


def test_an_experiment_audits_every_attacked_net_and_defence_once(tmp_path):
    attacks = [None, {"name": "fgsm", "budget": BUDGET}, {"name": "pgd", "steps": 3, "budget": BUDGET}]
    content = {"tasks": [{"nets": [NET], "defenses": [None, {"name": "bit_depth"}], "attacks": attacks}]}
    run(read_experiment(content, tmp_path / "a.yaml"), tmp_path / "run")
    read = read_run(tmp_path / "run")
    assert [(c.defense, c.n) for c in read.audits] == [("none", 8), ("bit_depth", 8)]
    assert "undefended" in read.audits[1].result["probes"]
    assert len(read.done) == 6
    checks = {c.name: c for c in run_checks(read.cells)}
    assert checks["The loss rises with the steps"].compared == 2
    assert checks["Gradients beat other searches"].compared == 3
    without = read_experiment({**content, "audit": False}, tmp_path / "a.yaml")
    run(without, tmp_path / "quiet")
    assert read_run(tmp_path / "quiet").audits == []


def test_a_recogniser_is_audited_on_few_clips_and_without_the_search_that_needs_classes(tmp_path):
    net = {"model": {"name": "ctc_small"}, "data": {"name": "digit_strings", "limit": 3}}
    task = {
        "task": {"name": "audit", "samples": 8, "steps": 2},
        "nets": [net],
        "attacks": [{"name": "pgd", "budget": {"name": "snr", "snr_db": 30}}],
    }
    run(read_experiment({"tasks": [task]}, tmp_path / "a.yaml"), tmp_path / "run")
    (only,) = read_run(tmp_path / "run").audits
    assert only.n == 1
    assert set(only.result["probes"]) == {"clean", "noise", "one_step", "many_steps", "anything_allowed"}
    assert only.result["differs"] == 0


def audits(**entry):
    planned = plan(Experiment.model_validate({"name": "t", "tasks": [{"nets": [NET], **entry}]}))
    return [c for c in planned if c.spec["task"]["name"] == "audit"]


def test_every_value_of_a_swept_defence_is_audited_and_a_swept_budget_once_in_the_middle():
    pgd = {"name": "pgd", "budget": BUDGET}
    found = audits(
        defenses=[{"name": "jpeg"}],
        attacks=[None, pgd],
        sweep={"defense.quality": [50, 90], "attack.budget.eps": [0.1, 0.2, 0.3]},
    )
    assert [
        (c.variable, c.spec["defense"][0]["quality"], c.spec["attack"]["budget"]["eps"]) for c in found
    ] == [
        ({"defense.quality": 50}, 50, 0.2),
        ({"defense.quality": 90}, 90, 0.2),
    ]


def test_nets_under_attacks_without_a_budget_or_from_other_nets_are_audited_too():
    assert [c.spec["attack"]["budget"] for c in audits(attacks=[{"name": "deepfool"}])] == [None]
    borrowed = {"name": "pgd", "budget": BUDGET, "surrogate": {"models": [{"name": "mlp"}]}}
    assert [c.spec["attack"]["budget"] for c in audits(attacks=[borrowed])] == [BUDGET]
    assert audits(attacks=[None, {"name": "random_noise", "budget": BUDGET}]) == []


def test_nets_of_an_experiment_lend_each_other_their_attacks():
    mlp = {"model": {"name": "mlp"}, "data": NET["data"]}
    elsewhere = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 9}}
    pgd = {"name": "pgd", "budget": BUDGET}
    assert [
        [o["name"] for o in c.spec["task"]["others"]] for c in audits(nets=[NET, mlp], attacks=[pgd])
    ] == [["mlp"], ["cnn"]]
    assert [c.spec["task"]["others"] for c in audits(nets=[NET, elsewhere], attacks=[pgd])] == [[], []]


def test_a_broken_attack_does_not_keep_up_with_the_plain_search(tmp_path):
    whole = {"name": "pgd", "steps": 40, "budget": BUDGET}
    for name, attack, status in (
        ("whole", whole, "pass"),
        ("broken", whole | {"step_size": 1e-9, "random_start": False}, "flag"),
    ):
        content = {"tasks": [{"nets": [NET], "attacks": [attack], "metrics": [{"name": "correct"}]}]}
        run(read_experiment(content, tmp_path / "a.yaml"), tmp_path / name)
        checks = {c.name: c for c in run_checks(read_run(tmp_path / name).cells)}
        assert checks["The attacks match a plain search"].status == status
