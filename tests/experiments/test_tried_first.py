"""Experiment files: nets, defences and surrogates that do not fit are told in one message before the first
cell, by plan and by run."""

import json
import re

import pytest
import torch
import yaml
from torch import nn
from typer.testing import CliRunner

from limen.cli.app import app
from limen.core.errors import UserError
from limen.experiments.engine import run
from limen.experiments.file import Experiment

DIGITS = {"name": "digits", "limit": 4}
MLP = {"name": "mlp", "weights": "random"}
PGD = {"name": "pgd", "steps": 2, "budget": "linf:0.05"}

MODULES = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10, answer="logits", takes=64):
        super().__init__()
        self.linear, self.answer = nn.Linear(takes, classes), answer

    def forward(self, x):
        z = self.linear(x.flatten(1))
        return {"logits": z, "pair": (z, z), "nan": z * float("nan")}[self.answer]

def broken():
    raise RuntimeError("no weights here")

def flat(x):
    return x.flatten(1)[:, :32]
"""


def module(**arguments):
    own = {k: arguments.pop(k) for k in ("mean", "std", "factory", "classes") if k in arguments}
    return {"name": "torch_module", "classes": 10, "factory": "tried_nets:Net", "arguments": arguments, **own}


def content(model=MLP, attacks=(None,), **entry):
    return {
        "name": "t",
        "audit": False,
        "tasks": [{"nets": [{"model": model, "data": DIGITS}], "attacks": list(attacks), **entry}],
    }


def on(*models, **more):
    return [{**PGD, "surrogate": {"models": list(models), **more}}]


MISFITS = {
    "a surrogate of fewer classes": (
        content(attacks=on({**MLP, "classes": 5})),
        "The surrogate mlp has 5 classes, but the net mlp has 10",
    ),
    "a surrogate for sounds": (
        content(attacks=on({"name": "keyword_cnn"})),
        "The surrogate keyword_cnn takes clips",
    ),
    "a surrogate that writes": (
        content(attacks=on({"name": "ctc_small"})),
        "The surrogate ctc_small takes clips",
    ),
    "a stopping model of fewer classes": (
        content(attacks=on(MLP, stop={**MLP, "classes": 5})),
        "surrogate mlp has 5 classes",
    ),
    "a module that answers in pairs": (
        content(module(answer="pair")),
        "The net torch_module must return .* got tuple",
    ),
    "a module that answers with NaN": (
        content(module(answer="nan")),
        "The net torch_module must return finite logits",
    ),
    "a module for other pictures": (
        content(module(takes=784)),
        r"The net torch_module cannot take pictures of shape \(1, 8, 8\)",
    ),
    "normalisation of two channels": (
        content(module(mean=[0.5] * 2, std=[0.5] * 2)),
        "The net torch_module cannot take pictures",
    ),
    "more classes declared than there are": (
        content(module(classes=12)),
        "declared with 12 classes, but its logits have 10 columns",
    ),
    "fewer logits than declared": (
        content(module() | {"arguments": {"classes": 5}}),
        "declared with 10 classes, but its logits have 5 columns",
    ),
    "a factory that raises": (
        content(module(factory="tried_nets:broken")),
        "tried_nets:broken failed .RuntimeError: no weights here",
    ),
    "a factory without its arguments": (
        content(module(factory="tried_nets:flat")),
        "tried_nets:flat failed .TypeError",
    ),
    "a defence that breaks the net": (
        content(defenses=[{"name": "bpda", "transform": "tried_nets:flat"}]),
        "The net mlp behind the defense bpda cannot take pictures",
    ),
}


@pytest.fixture(autouse=True)
def _own_modules(tmp_path, monkeypatch):
    (tmp_path / "tried_nets.py").write_text(MODULES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "tried_nets", raising=False)


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_told_by_plan_and_run_before_anything_is_computed(misfit, tmp_path):
    given, words = MISFITS[misfit]
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(given))
    planned = CliRunner().invoke(app, ["plan", "t.yaml"], terminal_width=200)
    assert planned.exit_code == 2, planned.output
    assert re.search(words, planned.output.replace("\n", " ")), planned.output
    with pytest.raises(UserError, match=words):
        run(Experiment.model_validate(given), tmp_path / "run")
    assert not list((tmp_path / "run" / "cells").glob("*"))


def test_a_script_with_fewer_logits_than_classes_is_refused(tmp_path):
    net = torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    net.save(str(tmp_path / "five.pt"))
    given = content({"name": "torch_module", "classes": 10, "script": str(tmp_path / "five.pt")})
    with pytest.raises(UserError, match="declared with 10 classes, but its logits have 5 columns"):
        run(Experiment.model_validate(given), tmp_path / "run")


def test_all_that_does_not_fit_is_listed_at_once(tmp_path):
    given = content(attacks=[*on({**MLP, "classes": 5}), *on({"name": "keyword_cnn"})])
    with pytest.raises(
        UserError,
        match=r"Nothing was run, because of 2 problems:\n- The surrogate mlp .*\n- The surrogate keyword_cnn",
    ):
        run(Experiment.model_validate(given), tmp_path / "run")


def test_a_victim_of_a_transfer_is_tried_before_the_attack(tmp_path):
    victims = {"name": "transfer", "victims": [{"model": module(answer="pair"), "label": "x"}]}
    with pytest.raises(
        UserError, match=r"The victim x cannot evaluate these samples\. This model must return .* got tuple"
    ):
        run(Experiment.model_validate(content(attacks=[PGD], task=victims)), tmp_path / "run")


def test_in_safe_mode_the_other_cells_run(tmp_path):
    given = {**content(attacks=[*on({**MLP, "classes": 5}), None]), "safe_mode": True}
    summary = run(Experiment.model_validate(given), tmp_path / "run")
    assert [cell["status"] for cell in summary["cells"]] == ["failed", "done"]
    assert "has 5 classes" in json.dumps(summary["cells"][0]["error"])


def test_a_plan_without_mistakes_ends_with_exit_code_0(tmp_path):
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(content(attacks=on(MLP))))
    planned = CliRunner().invoke(app, ["plan", "t.yaml"])
    assert planned.exit_code == 0, planned.output
