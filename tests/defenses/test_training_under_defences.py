"""A defence that changes the training: the task train uses its objective."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from limen.core.errors import UserError
from limen.defenses.base.options import DefenseOptions
from limen.experiments.engine import run
from limen.experiments.file import read_experiment
from limen.models.base.model import Model

FGSM = {"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}}
OBJECTIVE = {"name": "adversarial", "attack": FGSM}


class Hardened(DefenseOptions):
    def training(self) -> dict[str, Any]:
        return OBJECTIVE


def hardened(model: Model, options: Hardened) -> Model:
    return model


def weights(folder, *, defense: str | None = None, **options: Any) -> dict[str, torch.Tensor]:
    net = {
        "model": {"name": "mlp", "weights": "random"},
        "data": {"name": "digits", "limit": 20},
    }
    task = {
        "task": {"name": "train", "epochs": 1, **options},
        "nets": [net],
        "defenses": [None if defense is None else {"name": defense}],
    }
    run(read_experiment({"tasks": [task], "audit": False}, folder / "test.yaml"), folder / "run")
    (path,) = (folder / "run").glob("cells/*/weights.safetensors")
    return load_file(path)


def test_a_net_behind_it_is_trained_under_its_objective(tmp_path, throw_away):
    throw_away("hardened", hardened, Hardened)
    plain, behind, named = (
        weights(tmp_path / name, **how)
        for name, how in (
            ("plain", {}),
            ("behind", {"defense": "hardened"}),
            ("named", {"objective": OBJECTIVE}),
        )
    )
    assert all(torch.equal(behind[name], named[name]) for name in named)
    assert not all(torch.equal(behind[name], plain[name]) for name in plain)


def test_two_objectives_for_one_training_are_refused(tmp_path, throw_away):
    throw_away("hardened", hardened, Hardened)
    with pytest.raises(
        UserError, match=r"has the objective trades, but a defense .* trains under adversarial"
    ):
        weights(tmp_path, defense="hardened", objective={"name": "trades"})
