"""Any torch module: by name or as TorchScript, fed what it was trained on."""

from pathlib import Path

import pytest
import torch
from external_example import Brightness

from limen.core.errors import UserError
from limen.models.base.load import load_model

PICTURE = {"name": "torch_module", "classes": ["mean", "offset"], "shape": [3, 4, 4]}


@pytest.fixture(autouse=True)
def _working_folder(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)


def test_a_module_by_name_gets_its_arguments():
    model = load_model({**PICTURE, "factory": "external_example:Brightness", "arguments": {"offset": 0.25}})
    x = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(model(x), Brightness(0.25)(x))
    assert (model.classes, model.shape, model.kind) == (["mean", "offset"], (3, 4, 4), "picture")


def test_a_torchscript_file_answers_as_the_module_it_came_from(tmp_path):
    path = str(tmp_path / "m.pt")
    torch.jit.trace(Brightness(0.5), torch.rand(2, 3, 4, 4)).save(path)
    model = load_model({**PICTURE, "script": path})
    x = torch.rand(5, 3, 4, 4).requires_grad_()
    torch.testing.assert_close(model(x), Brightness(0.5)(x))
    assert torch.autograd.grad(model(x)[:, 0].sum(), x)[0].abs().max() > 0


def test_a_state_dict_goes_into_the_module(tmp_path):
    torch.save({"model_state_dict": Brightness(0.75).state_dict()}, tmp_path / "w.pth")
    model = load_model(
        {
            **PICTURE,
            "factory": "external_example:Brightness",
            "weights": str(tmp_path / "w.pth"),
            "input_range": "0..255",
        }
    )
    assert model(torch.zeros(1, 3, 4, 4))[0, 1] == 0.75


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({}, 0.75),
        ({"input_range": "0..255"}, 191.25),
        ({"input_range": "-1..1"}, 0.5),
        ({"mean": [0.5] * 3, "std": [0.25] * 3}, 1.0),
    ],
)
def test_the_module_sees_the_range_it_was_trained_on(given, value):
    model = load_model({**PICTURE, "factory": "external_example:Brightness", **given})
    assert model(torch.full((1, 3, 4, 4), 0.75))[0, 0].item() == pytest.approx(value)


def test_clips_of_different_lengths_get_what_they_get_alone():
    model = load_model(
        {
            "name": "torch_module",
            "factory": "external_example:Brightness",
            "kind": "clip",
            "rate_hz": 8000,
            "classes": 2,
        }
    )
    x = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    assert model(x, torch.tensor([2, 4]))[:, 0].tolist() == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "either factory"),
        ({"factory": "external_example"}, "package.module:function"),
        ({"factory": "external_example:Nothing"}, "was not found"),
        ({"factory": "no_such_package:f"}, "was not found"),
        ({"factory": "external_example:not_a_module"}, "must return a torch.nn.Module"),
        ({"script": "no_such_file.pt"}, "TorchScript"),
        ({"factory": "external_example:Brightness", "kind": "clip", "shape": None}, "needs rate_hz"),
        (
            {"factory": "external_example:Brightness", "kind": "clip"},
            r"the shape of one clip is \[T\].* got \[3, 4, 4\]",
        ),
        (
            {"factory": "external_example:Brightness", "shape": [-1, 8, 8]},
            r"shape of one picture is \[C, H, W\], each 1 or more",
        ),
        ({"factory": "external_example:Brightness", "classes": 0}, "classes must be 2 or more"),
        ({"factory": "external_example:Brightness", "classes": -2}, "classes must be 2 or more"),
        ({"factory": "external_example:Brightness", "classes": []}, "classes must be 2 or more"),
        ({"factory": "external_example:Brightness", "mean": [], "std": []}, "one number per channel"),
        (
            {"factory": "external_example:Brightness", "mean": [0.5], "std": [0.5, 0.5]},
            "one number per channel each, got 1 and 2",
        ),
        (
            {"factory": "external_example:Brightness", "mean": [0.5], "std": [0.0]},
            "every std must be above 0",
        ),
        (
            {"factory": "external_example:Brightness", "mean": [0.5], "std": [-1.0]},
            "every std must be above 0",
        ),
    ],
)
def test_mistakes_are_explained(given, words):
    with pytest.raises(UserError, match=words):
        load_model({**PICTURE, **given})
