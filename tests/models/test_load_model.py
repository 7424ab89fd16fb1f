"""Weights: shipped, random or from a file, and what a user is told when they do not fit."""

import hashlib
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file

from limen.core.components import names
from limen.core.errors import UserError
from limen.data.fetch.get import get
from limen.models.base.load import ZOO, load_model, read_state
from limen.models.base.model import inner
from limen.models.training.card import read_card
from limen.models.training.options import TrainOptions

PARAMETERS = {
    "resnet50": 25_557_032,
    "vgg19": 143_678_248,
    "densenet121": 7_978_856,
    "inception_v3": 27_161_264,
}
"""As torchvision documents them."""
THEIRS = ("torch_module", "speaker_encoder", "huggingface_ctc", "huggingface_seq2seq")
"""Models that need a file of the user's."""
FAST = [n for n in names("models") if n not in PARAMETERS and n not in THEIRS]


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", FAST)
def test_random_weights_depend_on_their_seed_alone_and_leave_the_global_generator_as_it_was(name):
    if name == "whisper":
        get("whisper-tiny.en", progress=lambda _: None)  # its vocabulary
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = load_model({"name": name, "weights": "random"})
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert same(first, load_model({"name": name, "weights": "random"}))
    assert not same(first, load_model({"name": name, "weights": "random", "init_seed": 1}))
    assert not first.training


@pytest.mark.parametrize("name", PARAMETERS)
def test_large_networks_have_torchvisions_number_of_parameters(name):
    with torch.device("meta"):
        from limen.core.components import parse

        component, options = parse("models", name)
        model = component.function(options)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


def test_state_dicts_have_torchvisions_names():
    expected = {
        "resnet50": ["conv1.weight", "layer1.0.downsample.1.running_mean", "layer3.5.bn3.bias", "fc.weight"],
        "vgg19": ["features.0.bias", "features.49.weight", "features.50.running_var", "classifier.6.bias"],
        "densenet121": [
            "features.conv0.weight",
            "features.denseblock4.denselayer16.conv2.weight",
            "features.transition3.norm.bias",
            "features.norm5.weight",
            "classifier.bias",
        ],
        "inception_v3": [
            "Conv2d_1a_3x3.conv.weight",
            "Mixed_5d.branch3x3dbl_3.bn.bias",
            "Mixed_6e.branch7x7dbl_5.conv.weight",
            "AuxLogits.conv1.bn.running_var",
            "Mixed_7c.branch3x3_2b.conv.weight",
            "fc.bias",
        ],
    }
    from limen.core.components import parse

    for name, keys in expected.items():
        with torch.device("meta"):
            component, options = parse("models", name)
            state = inner(component.function(options)).state_dict()
        assert not [k for k in keys if k not in state], name


def test_the_residual_networks_have_cradvs_names_and_shapes():
    mnist, cifar = (
        inner(load_model({"name": f"resnet14_{d}", "weights": "random"})).state_dict()
        for d in ("mnist", "cifar")
    )
    assert list(mnist) == list(cifar)
    layers = ["conv1", "bn1", "conv2", "bn2"]
    expected = {"conv1", "bn1", "linear"} | {
        f"layer{i}.{j}.{n}" for i in (1, 2, 3) for j in (0, 1) for n in layers
    }
    assert {k.rsplit(".", 1)[0] for k in cifar} == expected | {
        f"layer{i}.0.shortcut.{n}" for i in (1, 2, 3) for n in (0, 1)
    }
    assert [tuple(s["linear.weight"].shape) for s in (mnist, cifar)] == [(10, 64 * 9), (10, 128 * 16)]
    assert [tuple(s["layer2.0.shortcut.0.weight"].shape) for s in (mnist, cifar)] == [
        (32, 16, 1, 1),
        (64, 32, 1, 1),
    ]
    assert sum(v.numel() for k, v in cifar.items() if "running" not in k and "tracked" not in k) == 711_322


WRAPPINGS = {
    "bare": lambda s: s,
    "checkpoint": lambda s: {"state_dict": s, "epoch": 3},
    "parallel": lambda s: {"net": {f"module.{k}": v for k, v in s.items()}},
}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=list(WRAPPINGS))
def test_weights_files_of_training_scripts_load(tmp_path, wrap):
    other = load_model({"name": "resnet14_mnist", "weights": "random", "init_seed": 5})
    torch.save(wrap(inner(other).state_dict()), tmp_path / "w.pth")
    assert same(other, load_model({"name": "resnet14_mnist", "weights": str(tmp_path / "w.pth")}))


def test_files_from_before_batch_counters_and_in_half_precision_load(tmp_path):
    other = load_model({"name": "resnet14_mnist", "weights": "random", "init_seed": 5})
    state = {k: v.half() for k, v in inner(other).state_dict().items() if "tracked" not in k}
    save_file(state, tmp_path / "w.safetensors")
    loaded = inner(
        load_model({"name": "resnet14_mnist", "weights": str(tmp_path / "w.safetensors")})
    ).state_dict()
    assert loaded["linear.weight"].dtype == torch.float32
    torch.testing.assert_close(loaded["linear.weight"], state["linear.weight"].float())


def test_old_names_of_densenet_files_are_understood():
    from limen.models.densenet121 import DenseNet

    assert (
        DenseNet.our_name("features.denseblock1.denselayer2.norm.1.running_mean")
        == "features.denseblock1.denselayer2.norm1.running_mean"
    )
    assert (
        DenseNet.our_name("features.denseblock1.denselayer2.norm1.weight")
        == "features.denseblock1.denselayer2.norm1.weight"
    )
    assert DenseNet.our_name("features.transition1.norm.weight") == "features.transition1.norm.weight"


def test_weights_that_do_not_fit_are_told_apart(tmp_path):
    state = inner(load_model({"name": "mlp", "weights": "random"})).state_dict()
    bad = {
        "1.weight": torch.zeros(2, 2),
        "1.bias": state["1.bias"],
        "3.weight": state["3.weight"],
        "extra": torch.zeros(1),
    }
    torch.save(bad, tmp_path / "w.pt")
    with pytest.raises(UserError) as error:
        load_model({"name": "mlp", "weights": str(tmp_path / "w.pt")})
    message = str(error.value)
    assert "1 missing: 3.bias" in message
    assert "1 unexpected: extra" in message
    assert "1.weight is (2, 2) and should be (64, 64)" in message


def test_zoo_weights_of_another_shape_are_refused():
    with pytest.raises(UserError, match="of another shape"):
        load_model({"name": "cnn", "size": 28})


def test_a_model_without_shipped_weights_says_what_to_do():
    with pytest.raises(UserError, match=r"weights: random"):
        load_model("resnet50")


def test_files_that_hold_code_or_are_damaged_or_absent_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    torch.save({"state_dict": Evil()}, tmp_path / "evil.pth")
    (tmp_path / "torn.safetensors").write_bytes(b"\x08")
    torch.save([1, 2], tmp_path / "list.pth")
    told = {
        "evil.pth": "refused",
        "torn.safetensors": "cannot be read",
        "list.pth": "must contain a state dict",
        "no.pth": "no weights file",
    }
    for name, words in told.items():
        with pytest.raises(UserError, match=words):
            read_state(tmp_path / name)


def test_fetched_models_name_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    for name in ("lenet5", "efficientnet_lite0", "cifar_resnet", "wake_word"):
        with pytest.raises(UserError, match=f"limen data get {name}"):
            load_model(name)


def test_the_zoo_stays_under_thirty_megabytes():
    assert sum(p.stat().st_size for p in ZOO.iterdir()) < 30e6


def test_every_shipped_file_has_a_card_a_recipe_and_a_row_in_the_readme():
    readme = (ZOO / "README.md").read_text()
    for weights in ZOO.glob("*.safetensors"):
        card = read_card(weights.stem)
        assert hashlib.sha256(weights.read_bytes()).hexdigest() == card["sha256"]
        recipe = yaml.safe_load((Path(__file__).parents[2] / card["recipe"]).read_text())
        (task,) = recipe["tasks"]
        assert recipe["seed"] == card["seed"]
        options = {k: v for k, v in task["task"].items() if k != "name"}
        assert TrainOptions(**options).model_dump(exclude_defaults=True) == card["train"]
        (net,) = task["nets"]
        assert {k: v for k, v in net["model"].items() if k != "weights"} == card["model"]
        assert net["data"] == card["data"]
        measured = card["test"].get("accuracy", card["test"].get("wer"))
        assert f"| `{weights.stem}` |" in readme
        assert f"{100 * measured:.1f} %" in next(
            line for line in readme.splitlines() if line.startswith(f"| `{weights.stem}` |")
        )
