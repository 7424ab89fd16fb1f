"""CrAdv's other tasks: samples, transfer, variables of an attack, training, stickers, and what happens when a
cell fails."""

from pathlib import Path

import numpy as np
import pytest
import torch
from cradv_files import failing_attack, read, task, weights
from PIL import Image

from limen.core.errors import UserError
from limen.models.base.load import load_model
from limen.models.base.model import inner


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
    assert first["original_label"].split(" - ")[1] in (
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
    )
    assert first["clean_confidence"].endswith("%")
    assert first["pert_norm_inf"] == pytest.approx(0.25, abs=1e-6)
    saved = {
        p.name: np.asarray(Image.open(p)).astype(int)
        for p in (root / "digits/samples_jpeg_fgsm/result_1").iterdir()
    }
    assert sorted(saved) == sorted(
        f"{i}_{what}.png" for i in (1, 2, 3) for what in ("clean", "adversary", "perturbation", "defended")
    )
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


def test_each_surrogate_attacks_once_and_is_named(at, pictures):
    weights("other", 1)
    weights("third", 2)
    root, heard = at("transfer.json")
    assert not any("random" in text for text in heard.said), "the weights were found"
    runs = ["fgsm on other", "fgsm on third", "mi_fgsm", "mi_fgsm on other"]
    assert heard.cells == [
        f"digits | accuracy | {defense} | {run}" for defense in ("no defence", "jpeg") for run in runs
    ]
    found = [read(root / f"digits/accuracy_fgsm/result_{n}.json")["attack_data"] for n in (1, 2)]
    assert [f["specific_model"]["net_id"] for f in found] == ["other", "third"]
    assert "specific_models" not in found[0]
    assert (
        read(root / "digits/accuracy_jpeg_mi_fgsm/result_2.json")["attack_data"]["specific_model"][
            "datasource_params"
        ]["batch_size"]
        == 6
    )
    own = read(root / "digits/accuracy_mi_fgsm/result_1.json")
    assert "specific_model" not in own["attack_data"]
    other = read(root / "digits/accuracy_mi_fgsm/result_2.json")
    assert own["result"]["correct"] <= other["result"]["correct"], (
        "the net's own gradient fools it at least as well"
    )


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
    first = (
        Path("data/weights/digits.pth").read_bytes(),
        read(root / "digits/accuracy/result_1.json")["result"],
    )
    weights("digits", 0)
    again, _ = at(content, out=Path("again"))
    assert first[1] == read(again / "digits/accuracy/result_1.json")["result"], "training is deterministic"


def test_safe_mode_writes_the_error_as_the_whole_file_and_goes_on(at):
    content = task(
        "accuracy", [failing_attack(), {"attack_name": "random_noise"}], params={"limit_samples": 2}
    )
    with pytest.raises(UserError, match=r"broken\.png: cannot be read as a picture"):
        at(content, out=Path("strict"))
    assert sorted(p.name for p in Path("strict").rglob("*.json")) == ["limen.json", "result_1.json"], (
        "the clean run, and no half result"
    )
    root, heard = at({**content, "config": {"safe_mode": True}}, out=Path("safe"))
    assert "cannot be read as a picture" in read(root / "digits/accuracy_adversarial_sticker/result_1.json")
    assert read(root / "digits/accuracy_random_noise/result_1.json")["result"]["total"] == 2
    assert "failed (error recorded)" in "\n".join(heard.said)
    assert not list(root.rglob("*.part"))


def test_an_adversarial_sticker_is_made_saved_and_used_again(at):
    made = {
        "attack_name": "adversarial_sticker",
        "attack_params": {
            "limit_samples": 3,
            "transforms_per_img": 2,
            "iter_per_img": 2,
            "save_path": "made.png",
        },
    }
    root, _ = at(task("accuracy", [made], params={"limit_samples": 4}, skip_no_attack=True), out=Path("made"))
    first = read(root / "digits/accuracy_adversarial_sticker/result_1.json")["result"]
    assert first["total"] == 4
    assert Image.open("made.png").size == (300, 300)
    used = {"attack_name": "adversarial_sticker", "attack_params": {"adv_sticker_path": "made.png"}}
    root, _ = at(task("accuracy", [used], params={"limit_samples": 4}, skip_no_attack=True), out=Path("used"))
    assert read(root / "digits/accuracy_adversarial_sticker/result_1.json")["result"]["total"] == 4
