"""How CrAdv's task files are read: its defaults, mistakes in one clear message, its folders of ImageNet."""

import numpy as np
import pytest
from cradv_files import net, read, task
from PIL import Image

from limen.core.errors import UserError
from limen.experiments.cradv import attacks, schema
from limen.experiments.cradv.runner import is_cradv


def test_defaults_are_crAdvs():
    def all_of(cls):
        return {name: f.get_default(call_default_factory=True) for name, f in cls.model_fields.items()}

    assert all_of(schema.Config) == {
        "device": None,
        "multi_gpu": True,
        "device_ids": None,
        "batch_size_factor": 1,
        "results_path": None,
        "safe_mode": False,
        "cradv_exact": False,  # Limen's own
    }
    assert all_of(schema.Datasource) == {"path": None, "batch_size": 8, "shuffle": None, "num_workers": 0}
    documented = {
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
    assert {name: all_of(cls) for name, cls in schema.ATTACKS.items()} == documented
    assert set(attacks.SEARCHES) == set(documented)
    assert {name: all_of(cls) for name, cls in schema.DEFENSES.items()} == {
        "jpeg": {"quality": 75},
        "crop_rescale": {"crop_size": None, "crop_size_factor": 0.75, "num_samples": 10},
    }
    assert {name: all_of(cls) for name, cls in schema.TASKS.items()} == {
        "accuracy": {"limit_samples": None, "top_k": None, "round": False},
        "constrained_accuracy": {
            "limit_samples": None,
            "top_k": None,
            "dissimilarity": True,
            "contraint_step": 0.25,
            "constraint_min": 0,
            "constraint_max": 6,
        },
        "samples": {
            "limit_samples": 4,
            "save_clean": True,
            "save_defended": True,
            "save_adversary": True,
            "save_perturbation": True,
        },
        "train": {"epochs": 1, "lr": 0.001, "momentum": 0.9, "weight_decay": 1e-4},
    }


def test_crAdvs_files_are_told_from_limens():
    assert is_cradv(task("accuracy"))
    assert not is_cradv({"name": "mine", "tasks": [{"nets": []}]})
    assert not is_cradv({"tasks": 3})


def constrained(exact=False, **params):
    content = task("constrained_accuracy", [{"attack_name": "i_fgsm"}], params=params)
    return {**content, "config": {"cradv_exact": exact}}


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
        (
            broken(attacks=[{"attack_name": "fgsm", "attack_params": {"eps": "0.1"}}]),
            r"attack_params: eps: .* got '0\.1'",
        ),
        (broken(attacks=[{"attack_name": "fgsm", "on_task_model": False}]), "specific_models is empty"),
        (broken(attack_variables=[{"variable_name": "eps", "variable_values": ["big"]}]), "attack fgsm: eps"),
        (broken(attack_variables=[{"variable_name": "eps"}]), '"variable_values" is required'),
        (broken(task_data={"task_name": "accuracy", "exec_multi": True}), "has no exec_multi in CrAdv"),
        (broken(task_data={"task_name": "accuracy", "skip_no_attack": "yes"}), "skip_no_attack"),
        (broken(nets=[]), "nets: list should have at least 1 item"),
        (
            broken(attack_variables=[{"variable_name": "eps", "variable_values": []}]),
            "variable_values: list should have at least 1 item",
        ),
        (broken(nets=[net() | {"net_id": ""}]), "net_id: it names the folder of the results"),
        (broken(nets=[net() | {"net_id": "../../x"}]), r"net_id: .* got '\.\./\.\./x'"),
        (broken(nets=[net() | {"net_id": "/tmp/x"}]), "net_id: it names the folder"),
        (constrained(contraint_step=1e-8), "in steps of 1e-08 has 600,000,001 values; at most 10,000"),
        (constrained(constraint_min=3, constraint_max=1), "the highest value 1 is below the lowest 3"),
        (
            constrained(constraint_min=3, constraint_max=1, exact=True),
            "the highest value 1 is below the lowest 3",
        ),
        (
            broken(attacks=[{"attack_name": "fgsm", "attack_params": {"try_eps_step": 1e-9}}]),
            "at most 10,000",
        ),
        (broken(nets=["mnist"]), r"tasks\[0\]: nets.0"),
        ({"tasks": [{"task_data": {"task_name": "accuracy"}}]}, '"nets" is required'),
        ({"config": {"device_ids": [0]}, "tasks": task("accuracy")["tasks"]}, "device_ids.0"),
        (
            broken(
                nets=[
                    {
                        "model_name": "resnet50",
                        "datasource_name": "imagenet",
                        "net_id": "r",
                        "datasource_params": {"path": "/nowhere"},
                    }
                ]
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
            Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(
                folder / "a.png"
            )
    one = {
        "model_name": "densenet121",
        "datasource_name": "imagenet_inc3",
        "net_id": "dense",
        "datasource_params": {"path": "/old/imagenet", "batch_size": 2},
        "model_params": {
            "num_classes": 5,
            "growth_rate": 4,
            "num_init_features": 8,
            "block_config": [1, 1, 1, 1],
        },
    }
    content = task(
        "samples",
        [{"attack_name": "fgsm", "attack_params": {"eps": 0.1}}],
        params={"limit_samples": 2},
        skip_no_attack=True,
    )
    content["tasks"][0]["nets"] = [one]
    root, _ = at(content, mapping={"/old": str(tmp_path)})
    result = read(root / "dense/samples_fgsm/result_1.json")["result"]
    assert sorted(s["original_label"] for s in result["samples"]) == ["n01", "n02"]
    assert Image.open(root / "dense/samples_fgsm/result_1/1_clean.png").size == (299, 299)
    assert result["samples"][0]["pert_norm_inf"] == pytest.approx(0.0229, rel=1e-3)
