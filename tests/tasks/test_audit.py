"""The audit tells honest models from masked ones, on nets whose tricks are known."""

import pytest
import torch
from torch import nn

from limen.attacks._run import Attack
from limen.data._dataset import Dataset
from limen.errors import UserError
from limen.experiments.engine import run
from limen.experiments.file import read_experiment
from limen.models._model import Classifier
from limen.report._checks import run_checks
from limen.report._run import read_run
from limen.tasks._cell import Cell
from limen.tasks.audit import Audit, audit
from limen.types import Sample

BUDGET = {"name": "linf", "eps": 0.3}


class Rounding(nn.Module):
    """A linear net behind steps of 1/4: right as it stands, and its gradient is zero everywhere."""

    def forward(self, x):
        return linear((x * 4).round() / 4)


def linear(x):
    level = x.flatten(1).mean(1) - 0.5
    return torch.stack([-level, level], 1)


class Plain(nn.Module):
    def forward(self, x):
        return linear(x)


def cell(tmp_path, network, attack=None):
    """32 grey pictures at several distances from the boundary."""
    model = Classifier(network, "picture", ["dark", "light"])
    levels = torch.linspace(0.05, 0.95, 32)
    samples = [Sample(f"s{i}", torch.full((1, 4, 4), float(v)), int(v > 0.5)) for i, v in enumerate(levels)]
    data = Dataset("greys", "picture", list(range(32)), lambda i: samples[i], ["dark", "light"], None)
    spec = attack or {"name": "pgd", "budget": BUDGET}
    return Cell(model, model, model, data, Attack.parse(spec), [], tmp_path, lambda n: data, lambda n: data)


def test_an_honest_net_is_fooled_as_far_as_the_budget_goes_and_wholly_beyond(tmp_path):
    result = audit(cell(tmp_path, Plain()), Audit()).result
    within = sum(abs(v - 0.5) < 0.3 for v in torch.linspace(0.05, 0.95, 32).tolist()) / 32
    assert result["probes"]["many_steps"] == result["probes"]["one_step"] == pytest.approx(within)
    assert result["probes"]["anything_allowed"] == 1
    assert result["probes"]["no_gradients"] <= within
    assert result["probes"]["noise"] < within
    assert result["dead"] == 0
    assert result["loss"] == sorted(result["loss"])
    assert (result["steps"][0], result["steps"][-1], result["n"]) == (0, 40, 32)


def test_rounding_gives_dead_gradients_and_a_search_without_gradients_wins(tmp_path):
    result = audit(cell(tmp_path, Rounding()), Audit()).result
    assert result["dead"] == 1
    assert result["gradient_norms"] == []
    assert result["probes"]["no_gradients"] > result["probes"]["many_steps"]
    assert result["probes"]["anything_allowed"] < 1


def test_every_probe_is_judged_per_sample(tmp_path):
    outcome = audit(cell(tmp_path, Plain()), Audit(samples=8))
    assert [row["id"] for row in outcome.rows] == [f"s{i}" for i in range(8)]
    assert all(isinstance(row[name], bool) for row in outcome.rows for name in outcome.result["probes"])


def test_an_attack_without_a_budget_cannot_be_audited(tmp_path):
    with pytest.raises(UserError, match="needs an attack with a budget"):
        audit(cell(tmp_path, Plain(), {"name": "deepfool"}), Audit())


def test_an_experiment_audits_every_attacked_net_and_defence_once(tmp_path):
    net = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 8}}
    attacks = [None, {"name": "fgsm", "budget": BUDGET}, {"name": "pgd", "steps": 3, "budget": BUDGET}]
    content = {"tasks": [{"nets": [net], "defenses": [None, {"name": "bit_depth"}], "attacks": attacks}]}
    run(read_experiment(content, tmp_path / "a.yaml"), tmp_path / "run")
    read = read_run(tmp_path / "run")
    assert [(c.defense, c.n) for c in read.audits] == [("none", 8), ("bit_depth", 8)]
    assert "undefended" in read.audits[1].result["probes"]
    assert len(read.done) == 6
    checks = {c.name: c for c in run_checks(read.cells)}
    assert checks["The loss rises with the steps"].compared == 2
    assert checks["Gradients beat guessing"].compared == 3
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
    assert set(only.result["probes"]) == {"noise", "one_step", "many_steps", "anything_allowed"}
