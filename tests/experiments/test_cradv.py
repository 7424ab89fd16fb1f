"""CrAdv's task files run unchanged: its units, order, results tree and JSON keys, on tiny data in its layouts."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from limen.errors import UserError
from limen.experiments import _cradv_attacks, _cradv_schema
from limen.experiments._cradv_tasks import grid
from limen.experiments.cradv import is_cradv, run_cradv
from limen.models._load import load_model
from limen.models._model import inner

HERE = Path(__file__).parent / "cradv"


class Heard:
    """A progress that remembers what was said."""

    def __init__(self):
        self.said, self.cells = [], []

    def begin(self, total):
        self.total = total

    def cell(self, number, count, words):
        self.cells.append(words)

    def advance(self, units): ...

    def say(self, text):
        self.said.append(text)


def idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Digits as torchvision keeps MNIST, things as it keeps CIFAR-10.

    Labels are what a net with random weights says, so all clean answers are right.
    """
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(1)
    for part, n in (("train", 40), ("t10k", 20)):
        x = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        idx(root / f"digits/MNIST/raw/{part}-images-idx3-ubyte", x)
        idx(root / f"digits/MNIST/raw/{part}-labels-idx1-ubyte", labels("resnet14_mnist", x[:, None]))
    things = root / "things/cifar-10-batches-py"
    things.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        x = rng.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
        (things / name).write_bytes(pickle.dumps({b"data": x.reshape(12, -1), b"labels": labels("resnet14_cifar", x).tolist()}, protocol=2))
    return root


@torch.no_grad()
def labels(name, x):
    return load_model({"name": name, "weights": "random"})(torch.from_numpy(x).float() / 255).argmax(1).numpy()


@pytest.fixture
def at(tmp_path, monkeypatch, pictures):
    """A working folder with the weights of "digits"; `at(file)` runs a file there with its paths mapped, and returns the results folder
    and what was heard."""
    monkeypatch.chdir(tmp_path)
    weights("digits", 0)

    def run(content, **options):
        name = content if isinstance(content, str) else "given.json"
        content = json.loads((HERE / content).read_text()) if isinstance(content, str) else content
        heard = Heard()
        given = {"mapping": {"/srv/pictures": str(pictures)}, "out": None, "limit": None, "device": "cpu", **options}
        return run_cradv(content, HERE / name, **given, progress=heard), heard

    return run


def read(path):
    return json.loads(path.read_text())


def net(**params):
    return {
        "model_name": "resnet14_mnist",
        "datasource_name": "mnist",
        "net_id": "digits",
        "datasource_params": {"path": "/srv/pictures/digits", **params},
    }


def task(name, attacks=(), defenses=(), params=None, **data):
    return {
        "tasks": [
            {
                "task_data": {"task_name": name, "task_params": params or {}, **data},
                "nets": [net()],
                "attacks": list(attacks),
                "defenses": list(defenses),
            }
        ]
    }


def sign_of_gradient(view, x, y):
    x = x.clone().requires_grad_()
    F.cross_entropy(view(x), y, reduction="sum").backward()
    return x.grad.sign()


# the results tree


def test_accuracy_writes_crAdvs_tree_and_keys(at):
    root, heard = at("accuracy.json")
    assert root == Path("found/accuracy")
    files = sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))
    folders = ["accuracy", "accuracy_fgsm", "accuracy_i_fgsm", "accuracy_jpeg", "accuracy_jpeg_fgsm", "accuracy_jpeg_i_fgsm"]
    assert files == sorted(["digits", *(f"digits/{f}" for f in folders), *(f"digits/{f}/result_1.json" for f in folders)])
    assert heard.cells[:3] == [
        "digits | accuracy | no defence | no attack",
        "digits | accuracy | no defence | fgsm",
        "digits | accuracy | no defence | i_fgsm",
    ]
    whole = read(root / "digits/accuracy_jpeg_fgsm/result_1.json")
    assert list(whole) == ["task_data", "net_data", "attack_data", "defense_data", "exec_time", "result"]
    assert whole["task_data"] == {
        "task_name": "accuracy",
        "task_params": {"limit_samples": 13, "top_k": 5},
        "description": "clean, then two attacks, then behind JPEG",
        "exec_multi": False,
        "attack_on_defense": True,
        "plot_results": False,
        "plot_keys": [],
        "plot_together": True,
        "skip_no_defense": False,
        "skip_no_attack": False,
        "skip_no_attack_variables": False,
    }
    assert whole["net_data"]["datasource_params"]["batch_size"] == 8
    assert whole["net_data"]["model_params"] == {}
    assert whole["attack_data"] == {"attack_name": "fgsm", "attack_params": {"eps": 0.2}, "except_variables": [], "on_task_model": True}
    assert whole["defense_data"] == {"defense_name": "jpeg", "defense_params": {}}
    assert whole["exec_time"].startswith("0h 0m ")
    assert list(whole["result"]) == [
        "total",
        "correct",
        "adversarial",
        "accuracy",
        "avg_confidence",
        "top_5_accuracy",
        "clean_correct",
        "clean_avg_norm",
        "adv_avg_norm",
        "adv_dissimilarity",
    ]
    assert {k: list(v) for k, v in whole["result"].items() if isinstance(v, dict)} == {
        "avg_confidence": ["correct", "adversarial"],
        "clean_correct": ["total", "adversarial", "accuracy"],
        "clean_avg_norm": ["0", "2", "inf"],
        "adv_avg_norm": ["0", "2", "inf"],
        "adv_dissimilarity": ["2", "inf"],
    }
    clean = read(root / "digits/accuracy/result_1.json")
    assert (clean["attack_data"], clean["defense_data"]) == (None, None)
    assert list(clean["result"]) == ["total", "correct", "adversarial", "accuracy", "avg_confidence", "top_5_accuracy"]
    assert clean["result"]["total"] == 13, "exactly the samples asked for, although the batches hold 8"
    assert clean["result"]["accuracy"] == 1.0


def test_notices_name_what_is_ignored_and_the_device(at):
    Path("data/weights/digits.pth").unlink()
    said = "\n".join(at("accuracy.json")[1].said)
    assert 'attacks[1]: "eps" is ignored, by CrAdv too; it belongs into attack_params' in said
    assert '"round" is ignored' in said
    assert "device cuda:0 is not available here, using cpu" in said
    assert "there is no data/weights/digits.pth" in said


def test_eps_is_in_normalised_units_and_norms_in_pixels(at, pictures):
    result = read(at("accuracy.json")[0] / "digits/accuracy_fgsm/result_1.json")["result"]
    assert result["adv_avg_norm"]["inf"] == pytest.approx(0.1, abs=1e-6)
    # the same attack written out: the 13 samples are those of Limen's seeded order
    from limen.components import load

    data = load("data", "mnist")
    x = data.function(data.parse({"path": str(pictures / "digits/MNIST/raw"), "limit": 13})).all()
    network = inner(load_model({"name": "resnet14_mnist", "weights": "random"}))
    x_n = (x.x - 0.5) / 0.5
    x_adv = (x_n + 0.2 * sign_of_gradient(network, x_n, x.y)).clamp(-1, 1)
    with torch.no_grad():
        logits = network(x_adv)
    fooled = logits.argmax(1) != x.y
    change = ((x_adv - x_n) * 0.5).flatten(1)
    assert (result["total"], result["correct"], result["adversarial"]) == (13, 13 - int(fooled.sum()), int(fooled.sum()))
    assert result["adversarial"] > 0
    assert result["adv_avg_norm"]["2"] == pytest.approx(change.norm(dim=1)[fooled].mean().item(), rel=1e-5)
    assert result["adv_dissimilarity"]["2"] == pytest.approx(
        (change.norm(dim=1) / x.x.flatten(1).norm(dim=1))[fooled].mean().item(), rel=1e-5
    )
    assert result["avg_confidence"]["adversarial"] == pytest.approx(logits.softmax(1).amax(1)[fooled].mean().item(), rel=1e-5)
    assert result["clean_correct"] == {"total": 13, "adversarial": int(fooled.sum()), "accuracy": (13 - int(fooled.sum())) / 13}


def test_results_are_added_and_never_written_over(at):
    content = task("accuracy", params={"limit_samples": 2})
    root, _ = at(content, out=Path("mine"))
    before = (root / "digits/accuracy/result_1.json").read_bytes()
    at(content, out=Path("mine"))
    assert sorted(p.name for p in (root / "digits/accuracy").iterdir()) == ["result_1.json", "result_2.json"]
    assert (root / "digits/accuracy/result_1.json").read_bytes() == before


def test_what_a_killed_run_left_half_is_cleared_away(at):
    half = Path("mine/digits/samples/result_1.part")
    half.mkdir(parents=True)
    (half / "7_clean.png").write_bytes(b"")
    root, _ = at(task("samples", params={"limit_samples": 1}), out=Path("mine"))
    assert sorted(p.relative_to(root / "digits/samples").as_posix() for p in (root / "digits/samples").rglob("*")) == [
        "result_1",
        "result_1.json",
        "result_1/1_clean.png",
    ]


def test_the_command_runs_a_file_with_mapped_paths(at, pictures):
    from typer.testing import CliRunner

    from limen.cli import app

    told = CliRunner().invoke(
        app, ["run", str(HERE / "accuracy.json"), "--map", f"/srv/pictures={pictures}", "--limit", "2", "--out", "mine"]
    )
    assert told.exit_code == 0, told.output
    assert "results: mine" in told.output
    assert read(Path("mine/digits/accuracy_jpeg_fgsm/result_1.json"))["result"]["total"] == 2


def test_the_default_results_path_is_the_date(at, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form, *rest: {"results/%y-%m-%d_%H:%M": "results/26-01-02_03:04"}.get(form, ""))
    assert at(task("accuracy"), limit=1)[0] == Path("results/26-01-02_03:04")


def test_batch_size_and_factor_change_no_result(at):
    def results(size, factor):
        content = task("accuracy", [{"attack_name": "random_noise"}, {"attack_name": "i_fgsm"}], params={"limit_samples": 7})
        content["config"] = {"batch_size_factor": factor}
        content["tasks"][0]["nets"][0]["datasource_params"]["batch_size"] = size
        root, _ = at(content, out=Path(f"b{size}x{factor}"))
        found = [read(root / f"digits/accuracy_{name}/result_1.json") for name in ("random_noise", "i_fgsm")]
        assert {f["net_data"]["datasource_params"]["batch_size"] for f in found} == {int(size * factor)}
        return [f["result"] for f in found]

    one, other = results(2, 1), results(4, 2)
    assert [r["correct"] for r in one] == [r["correct"] for r in other]
    for a, b in zip(one, other, strict=True):
        assert a["adv_avg_norm"] == pytest.approx(b["adv_avg_norm"], rel=1e-4)


# constrained accuracy


def test_constrained_accuracy_of_all_defences_and_attacks_at_once(at):
    root, _ = at("constrained.json")
    folder = root / "things/constrained_accuracy"
    whole = read(folder / "result_1.json")
    assert (whole["attack_data"], whole["defense_data"]) == (None, None)
    assert list(whole["result"]) == ["total", "accuracy_by_norm"]
    assert whole["result"]["total"] == 6
    info = whole["result"]["accuracy_by_norm"]
    assert list(info) == ["no_defense", "crop_rescale"]
    assert list(info["no_defense"]) == ["fgsm", "random_noise", "i_fgsm", "i_fgsm_2"]
    for one in info["no_defense"].values():
        assert list(one) == ["0", "0.02", "0.04", "0.06"]
        assert one["0"] == {"correct": 6, "adv_dissimilarity": 0.0, "correct_topk": 6, "accuracy": 100.0, "topk_accuracy": 100.0}
        for key, value in one.items():
            # cut to [0, 1], so at most what was asked for
            assert value["adv_dissimilarity"] <= float(key) + 1e-6
            assert value["adv_dissimilarity"] >= 0.9 * float(key)
    assert sorted(p.name for p in (folder / "result_1").iterdir()) == [
        "crop_rescale_plot.png",
        "crop_rescale_topk_plot.png",
        "no_defense_plot.png",
        "no_defense_topk_plot.png",
    ]


def test_constrained_accuracy_alone_draws_its_plot_and_skips_the_run_without_attack(at):
    root, heard = at(
        task("constrained_accuracy", [{"attack_name": "mi_fgsm"}], params={"limit_samples": 3, "dissimilarity": False, "constraint_max": 1})
    )
    assert heard.cells == ["digits | constrained_accuracy | no defence | mi_fgsm"]
    assert "nothing to constrain" in "\n".join(heard.said)
    result = read(root / "digits/constrained_accuracy_mi_fgsm/result_1.json")["result"]
    assert list(result["accuracy_by_norm"]) == ["0", "0.25", "0.5", "0.75", "1.0"]
    assert (root / "digits/constrained_accuracy_mi_fgsm/result_1/accuracy_plot.png").is_file()


@pytest.mark.parametrize(
    ("low", "step", "high", "keys"),
    [
        (0, 0.01, 0.075, "0 0.01 0.02 0.03 0.04 0.05 0.06 0.07"),
        (0, 0.1, 0.3, "0 0.1 0.2 0.3"),
        (0, 2, 6, "0 2 4 6"),
        (0.5, 0.25, 1, "0.5 0.75 1.0"),
    ],
)
def test_the_grid_has_clean_decimals_and_its_last_value(low, step, high, keys):
    assert list(grid(_cradv_schema.ConstrainedAccuracy(constraint_min=low, contraint_step=step, constraint_max=high))) == keys.split()


# samples, transfer, variables, training, failure


def test_samples_saves_pictures_and_what_is_said_of_them(at):
    root, _ = at("samples.json")
    whole = read(root / "digits/samples_jpeg_fgsm/result_1.json")
    assert list(whole["result"]) == ["total", "correct", "samples"]
    assert whole["result"]["total"] == 3
    first = whole["result"]["samples"][0]
    assert list(first) == [
        "index",
        "original_label",
        "clean_confidence",
        "adversary_label",
        "adversary_confidence",
        "pert_norm_0",
        "pert_norm_2",
        "pert_norm_inf",
    ]
    assert first["original_label"].split(" - ")[1] in ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert first["clean_confidence"].endswith("%")
    assert first["pert_norm_inf"] == pytest.approx(0.25, abs=1e-6)
    saved = {p.name: np.asarray(Image.open(p)).astype(int) for p in (root / "digits/samples_jpeg_fgsm/result_1").iterdir()}
    assert sorted(saved) == sorted(f"{i}_{what}.png" for i in (1, 2, 3) for what in ("clean", "adversary", "perturbation", "defended"))
    assert np.abs(saved["1_adversary.png"] - saved["1_clean.png"]).max() == 64  # 0.25 of 255
    assert (saved["1_defended.png"] != saved["1_adversary.png"]).any()


def test_samples_of_all_attacks_at_once_have_a_folder_each(at):
    root, _ = at("samples.json")
    whole = read(root / "digits/samples/result_1.json")
    assert list(whole["result"]) == ["samples", "samples_mi_fgsm", "samples_mi_fgsm_2"]
    assert list(whole["result"]["samples"]) == ["correct", "samples"]
    for folder in ("samples_mi_fgsm", "samples_mi_fgsm_2"):
        assert sorted(p.name for p in (root / "digits" / folder / "result_1").iterdir()) == [
            "1_adversary.png",
            "1_perturbation.png",
            "2_adversary.png",
            "2_perturbation.png",
        ]


def weights(net_id, seed):
    Path("data/weights").mkdir(parents=True, exist_ok=True)
    model = load_model({"name": "resnet14_mnist", "weights": "random", "init_seed": seed})
    torch.save(inner(model).state_dict(), f"data/weights/{net_id}.pth")


def test_each_surrogate_attacks_once_and_is_named(at, pictures):
    weights("other", 1)
    weights("third", 2)
    root, heard = at("transfer.json")
    assert not any("random" in text for text in heard.said), "the weights were found"
    runs = ["fgsm on other", "fgsm on third", "mi_fgsm", "mi_fgsm on other"]
    assert heard.cells == [f"digits | accuracy | {defense} | {run}" for defense in ("no defence", "jpeg") for run in runs]
    found = [read(root / f"digits/accuracy_fgsm/result_{n}.json")["attack_data"] for n in (1, 2)]
    assert [f["specific_model"]["net_id"] for f in found] == ["other", "third"]
    assert "specific_models" not in found[0]
    assert (
        read(root / "digits/accuracy_jpeg_mi_fgsm/result_2.json")["attack_data"]["specific_model"]["datasource_params"]["batch_size"] == 6
    )
    own = read(root / "digits/accuracy_mi_fgsm/result_1.json")
    assert "specific_model" not in own["attack_data"]
    other = read(root / "digits/accuracy_mi_fgsm/result_2.json")
    assert own["result"]["correct"] <= other["result"]["correct"], "the net's own gradient fools it at least as well"


def test_attack_variables_are_judged_behind_the_defence_and_plotted(at):
    root, heard = at("variables.json")
    folder = root / "digits/accuracy_jpeg_fgsm"
    whole = read(folder / "result_1.json")["result"]
    assert list(whole) == ["variable_name", "results"]
    assert (whole["variable_name"], list(whole["results"])) == ("eps", ["0", "0.2", "1.5"])
    for defense in ("", "jpeg_"):
        unchanged = [
            read(root / f"digits/accuracy_{defense}{name}/result_1.json")["result"]["results"]["0"]["correct"]
            for name in ("fgsm", "i_fgsm")
        ]
        assert unchanged[0] == unchanged[1], "eps 0 changes nothing"
    alone, _ = at(
        task(
            "accuracy",
            [{"attack_name": "fgsm", "attack_params": {"eps": 0.2}}],
            [{"defense_name": "jpeg"}],
            {"limit_samples": 10, "top_k": 2},
        ),
        out=Path("alone"),
    )
    assert whole["results"]["0.2"] == read(alone / "digits/accuracy_jpeg_fgsm/result_1.json")["result"]
    assert (folder / "result_1_plot0.png").is_file()
    assert (folder / "result_1_plot1.png").is_file()
    assert not (root / "digits/accuracy_i_fgsm/result_2.json").exists(), "iterations is excepted"
    assert 'the attack fgsm has no "iterations"' in "\n".join(heard.said)


def test_training_writes_weights_that_the_next_task_takes(at):
    content = task("train", params={"epochs": 2, "lr": 0.05})
    content["tasks"] += task("accuracy", [{"attack_name": "fgsm", "attack_params": {"eps": 0.1}}])["tasks"]
    root, _ = at(content, out=Path("mine"))
    assert read(root / "digits/train/result_1.json")["result"] == {}
    state = torch.load("data/weights/digits.pth", weights_only=True)
    untrained = inner(load_model({"name": "resnet14_mnist", "weights": "random"})).state_dict()
    assert set(state) == set(untrained)
    assert not torch.equal(state["conv1.weight"], untrained["conv1.weight"])
    judged = load_model({"name": "resnet14_mnist", "weights": "data/weights/digits.pth"})
    assert judged is not None
    first = (Path("data/weights/digits.pth").read_bytes(), read(root / "digits/accuracy/result_1.json")["result"])
    weights("digits", 0)
    again, _ = at(content, out=Path("again"))
    assert first[1] == read(again / "digits/accuracy/result_1.json")["result"], "training is deterministic"


def test_safe_mode_writes_the_error_as_the_whole_file_and_goes_on(at):
    failing = {"attack_name": "carlini_wagner", "attack_params": {"target_class": "random", "random_classes": "99 98"}}
    content = task("accuracy", [failing, {"attack_name": "random_noise"}], params={"limit_samples": 2})
    with pytest.raises(UserError, match="among"):
        at(content, out=Path("strict"))
    assert [p.name for p in Path("strict").rglob("*") if p.is_file()] == ["result_1.json"], "the clean run, and no half result"
    root, heard = at({**content, "config": {"safe_mode": True}}, out=Path("safe"))
    assert "among must hold classes from 0 to 9" in read(root / "digits/accuracy_carlini_wagner/result_1.json")
    assert read(root / "digits/accuracy_random_noise/result_1.json")["result"]["total"] == 2
    assert "failed and recorded" in "\n".join(heard.said)
    assert not list(root.rglob("*.part"))


def test_an_adversarial_sticker_is_made_saved_and_used_again(at):
    made = {
        "attack_name": "adversarial_sticker",
        "attack_params": {"limit_samples": 3, "transforms_per_img": 2, "iter_per_img": 2, "save_path": "made.png"},
    }
    root, _ = at(task("accuracy", [made], params={"limit_samples": 4}, skip_no_attack=True), out=Path("made"))
    first = read(root / "digits/accuracy_adversarial_sticker/result_1.json")["result"]
    assert first["total"] == 4
    assert Image.open("made.png").size == (300, 300)
    used = {"attack_name": "adversarial_sticker", "attack_params": {"adv_sticker_path": "made.png"}}
    root, _ = at(task("accuracy", [used], params={"limit_samples": 4}, skip_no_attack=True), out=Path("used"))
    assert read(root / "digits/accuracy_adversarial_sticker/result_1.json")["result"]["total"] == 4


# reading files


def test_defaults_are_crAdvs():
    def all_of(cls):
        return {name: f.get_default(call_default_factory=True) for name, f in cls.model_fields.items()}

    assert all_of(_cradv_schema.Config) == {
        "device": None,
        "multi_gpu": True,
        "device_ids": None,
        "batch_size_factor": 1,
        "results_path": None,
        "safe_mode": False,
    }
    assert all_of(_cradv_schema.Datasource) == {"path": None, "batch_size": 8, "shuffle": None, "num_workers": 0}
    attacks = {
        "fgsm": {"eps": None, "try_eps_min": 0.001, "try_eps_max": 1, "try_eps_step": 0.001},
        "i_fgsm": {
            "eps": 0.1,
            "alpha": None,
            "iterations": 10,
            "max_2_norm": None,
            "dissimilarity": None,
            "least_likely": False,
            "min_alpha": None,
        },
        "mi_fgsm": {"eps": 0.1, "iterations": 10, "decay_factor": 1.0, "max_2_norm": None},
        "deepfool": {"eps": 0.02, "k_classes": 10, "max_iter": 50, "max_2_norm": None, "dissimilarity": None},
        "carlini_wagner": {
            "bin_search_steps": 10,
            "max_iterations": 1000,
            "abort_early": True,
            "c_init": 0.01,
            "c_const": None,
            "learning_rate": 0.01,
            "confidence": 0,
            "target_class": None,
            "random_classes": None,
        },
        "random_noise": {"eps": 0.2, "max_2_norm": None, "dissimilarity": None},
        "adversarial_sticker": {
            "base_img_path": None,
            "adv_sticker_path": None,
            "limit_samples": 1000,
            "transforms_per_img": 6,
            "iter_per_img": 10,
            "adv_target": None,
            "alpha": 0.015,
            "decay_factor": 1,
            "gradient_noise": 0.15,
            "random_noise": 0.15,
            "save_path": "adv_sticker.png",
        },
    }
    assert {name: all_of(cls) for name, cls in _cradv_schema.ATTACKS.items()} == attacks
    assert set(_cradv_attacks.SEARCHES) == set(attacks)
    assert {name: all_of(cls) for name, cls in _cradv_schema.DEFENSES.items()} == {
        "jpeg": {"quality": 75},
        "crop_rescale": {"crop_size": None, "crop_size_factor": 0.75, "num_samples": 10},
    }
    assert {name: all_of(cls) for name, cls in _cradv_schema.TASKS.items()} == {
        "accuracy": {"limit_samples": None, "top_k": None, "round": False},
        "constrained_accuracy": {
            "limit_samples": None,
            "top_k": None,
            "dissimilarity": True,
            "contraint_step": 0.25,
            "constraint_min": 0,
            "constraint_max": 6,
        },
        "samples": {"limit_samples": 4, "save_clean": True, "save_defended": True, "save_adversary": True, "save_perturbation": True},
        "train": {"epochs": 1, "lr": 0.001, "momentum": 0.9, "weight_decay": 1e-4},
    }


def test_crAdvs_files_are_told_from_limens():
    assert is_cradv(task("accuracy"))
    assert not is_cradv({"name": "mine", "tasks": [{"nets": []}]})
    assert not is_cradv({"tasks": 3})


def broken(**changes):
    content = task("accuracy", [{"attack_name": "fgsm"}])
    content["tasks"][0] |= changes
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            broken(nets=[{"model_name": "resnet14_mnist", "datasource_name": "mnist"}]),
            r"tasks\[0\]\.nets\[0\]: the option .net_id. is required",
        ),
        (broken(task_data={}), r"task_data: the option \"task_name\" is required"),
        (broken(task_data={"task_name": "acuracy"}), 'no task "acuracy". Did you mean accuracy'),
        (broken(nets=[net() | {"model_name": "resnet18"}]), 'no model "resnet18"'),
        (broken(nets=[net() | {"datasource_name": "cifar"}]), "Did you mean cifar10"),
        (broken(attacks=[{"attack_name": "ifgsm"}]), "Did you mean i_fgsm"),
        (broken(attacks=[{}]), '"attack_name" is required'),
        (broken(defenses=[{"defense_name": "jpg"}]), "Did you mean jpeg"),
        (broken(attacks=[{"attack_name": "fgsm", "attack_params": {"eps": "0.1"}}]), r"attack_params: eps: .* '0\.1' came"),
        (broken(attacks=[{"attack_name": "fgsm", "on_task_model": False}]), "specific_models is empty"),
        (broken(attack_variables=[{"variable_name": "eps", "variable_values": ["big"]}]), "attack fgsm: eps"),
        (broken(attack_variables=[{"variable_name": "eps"}]), '"variable_values" is required'),
        (broken(task_data={"task_name": "accuracy", "exec_multi": True}), "has no exec_multi in CrAdv"),
        (broken(task_data={"task_name": "accuracy", "skip_no_attack": "yes"}), "skip_no_attack"),
        (broken(nets=["mnist"]), r"tasks\[0\]: nets.0"),
        ({"tasks": [{"task_data": {"task_name": "accuracy"}}]}, '"nets" is required'),
        ({"config": {"device_ids": [0]}, "tasks": task("accuracy")["tasks"]}, "device_ids.0"),
        (
            broken(
                nets=[{"model_name": "resnet50", "datasource_name": "imagenet", "net_id": "r", "datasource_params": {"path": "/nowhere"}}]
            ),
            "--map OLD=NEW",
        ),
        (broken(nets=[net() | {"model_name": "resnet14_cifar", "net_id": "untrained"}]), "takes"),
    ],
)
def test_a_mistake_in_the_file_is_one_clear_message(at, content, message):
    with pytest.raises(UserError, match=message):
        at(content)


def test_imagenet_folders_are_read_and_classes_named(at, tmp_path):
    for split in ("train", "val"):
        for name in ("n01", "n02"):
            folder = tmp_path / "imagenet" / split / name
            folder.mkdir(parents=True)
            Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(folder / "a.png")
    one = {
        "model_name": "densenet121",
        "datasource_name": "imagenet_inc3",
        "net_id": "dense",
        "datasource_params": {"path": "/old/imagenet", "batch_size": 2},
        "model_params": {"num_classes": 5, "growth_rate": 4, "num_init_features": 8, "block_config": [1, 1, 1, 1]},
    }
    content = task("samples", [{"attack_name": "fgsm", "attack_params": {"eps": 0.1}}], params={"limit_samples": 2}, skip_no_attack=True)
    content["tasks"][0]["nets"] = [one]
    root, _ = at(content, mapping={"/old": str(tmp_path)})
    result = read(root / "dense/samples_fgsm/result_1.json")["result"]
    assert sorted(s["original_label"] for s in result["samples"]) == ["n01", "n02"]
    assert Image.open(root / "dense/samples_fgsm/result_1/1_clean.png").size == (299, 299)
    assert result["samples"][0]["pert_norm_inf"] == pytest.approx(0.0229, rel=1e-3)
