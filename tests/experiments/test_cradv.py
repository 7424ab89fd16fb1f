"""CrAdv's task files run unchanged: its units, order, results tree and JSON keys, on tiny data in its
layouts."""

from pathlib import Path

import pytest
import torch
from cradv_files import HERE, read, sign_of_gradient, task

from limen.experiments.cradv import schema
from limen.experiments.cradv.tasks import constraint_values
from limen.models.base.load import load_model
from limen.models.base.model import inner


def test_accuracy_writes_crAdvs_tree_and_keys(at):
    root, heard = at("accuracy.json")
    assert root == Path("found/accuracy")
    files = sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))
    folders = [
        "accuracy",
        "accuracy_fgsm",
        "accuracy_i_fgsm",
        "accuracy_jpeg",
        "accuracy_jpeg_fgsm",
        "accuracy_jpeg_i_fgsm",
    ]
    assert files == sorted(
        [
            "digits",
            "limen.json",
            *(f"digits/{f}" for f in folders),
            *(f"digits/{f}/result_1.json" for f in folders),
        ]
    )
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
    assert whole["attack_data"] == {
        "attack_name": "fgsm",
        "attack_params": {"eps": 0.2},
        "except_variables": [],
        "on_task_model": True,
    }
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
    assert list(clean["result"]) == [
        "total",
        "correct",
        "adversarial",
        "accuracy",
        "avg_confidence",
        "top_5_accuracy",
    ]
    assert clean["result"]["total"] == 13, "exactly the samples asked for, although the batches hold 8"
    assert clean["result"]["accuracy"] == 1.0


def test_notices_name_what_is_ignored_and_the_device(at):
    Path("data/weights/digits.pth").unlink()
    said = "\n".join(at("accuracy.json")[1].said)
    assert 'attacks[1]: "eps" is ignored, by CrAdv too; it belongs in attack_params' in said
    assert '"round" is ignored' in said
    assert "device cuda:0 is not available here, using cpu" in said
    assert "there is no data/weights/digits.pth" in said


def test_eps_is_in_normalised_units_and_norms_in_pixels(at, pictures):
    result = read(at("accuracy.json")[0] / "digits/accuracy_fgsm/result_1.json")["result"]
    assert result["adv_avg_norm"]["inf"] == pytest.approx(0.1, abs=1e-6)
    # the same attack written out: the 13 samples are those of Limen's seeded order
    from limen.core.components import load

    data = load("data", "mnist")
    x = data.function(data.parse({"path": str(pictures / "digits/MNIST/raw"), "limit": 13})).all()
    network = inner(load_model({"name": "resnet14_mnist", "weights": "random"}))
    x_n = (x.x - 0.5) / 0.5
    x_adv = (x_n + 0.2 * sign_of_gradient(network, x_n, x.y)).clamp(-1, 1)
    with torch.no_grad():
        logits = network(x_adv)
    fooled = logits.argmax(1) != x.y
    change = ((x_adv - x_n) * 0.5).flatten(1)
    assert (result["total"], result["correct"], result["adversarial"]) == (
        13,
        13 - int(fooled.sum()),
        int(fooled.sum()),
    )
    assert result["adversarial"] > 0
    assert result["adv_avg_norm"]["2"] == pytest.approx(change.norm(dim=1)[fooled].mean().item(), rel=1e-5)
    assert result["adv_dissimilarity"]["2"] == pytest.approx(
        (change.norm(dim=1) / x.x.flatten(1).norm(dim=1))[fooled].mean().item(), rel=1e-5
    )
    assert result["avg_confidence"]["adversarial"] == pytest.approx(
        logits.softmax(1).amax(1)[fooled].mean().item(), rel=1e-5
    )
    assert result["clean_correct"] == {
        "total": 13,
        "adversarial": int(fooled.sum()),
        "accuracy": (13 - int(fooled.sum())) / 13,
    }


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
    assert sorted(
        p.relative_to(root / "digits/samples").as_posix() for p in (root / "digits/samples").rglob("*")
    ) == [
        "result_1",
        "result_1.json",
        "result_1/1_clean.png",
    ]


def test_the_command_runs_a_file_with_mapped_paths(at, pictures):
    from typer.testing import CliRunner

    from limen.cli.app import app

    told = CliRunner().invoke(
        app,
        [
            "run",
            str(HERE / "accuracy.json"),
            "--map",
            f"/srv/pictures={pictures}",
            "--limit",
            "2",
            "--out",
            "mine",
        ],
    )
    assert told.exit_code == 0, told.output
    assert "results: mine" in told.output
    assert read(Path("mine/digits/accuracy_jpeg_fgsm/result_1.json"))["result"]["total"] == 2


def test_the_default_results_path_is_the_date(at, monkeypatch):
    monkeypatch.setattr(
        "time.strftime",
        lambda form, *rest: {"results/%y-%m-%d_%H:%M": "results/26-01-02_03:04"}.get(form, ""),
    )
    assert at(task("accuracy"), limit=1)[0] == Path("results/26-01-02_03:04")


def test_batch_size_and_factor_change_no_result(at):
    def results(size, factor):
        content = task(
            "accuracy",
            [{"attack_name": "random_noise"}, {"attack_name": "i_fgsm"}],
            params={"limit_samples": 7},
        )
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
        assert one["0"] == {
            "correct": 6,
            "adv_dissimilarity": 0.0,
            "correct_topk": 6,
            "accuracy": 100.0,
            "topk_accuracy": 100.0,
        }
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
        task(
            "constrained_accuracy",
            [{"attack_name": "mi_fgsm"}],
            params={"limit_samples": 3, "dissimilarity": False, "constraint_max": 1},
        )
    )
    assert heard.cells == ["digits | constrained_accuracy | no defence | mi_fgsm"]
    assert "constrained_accuracy needs an attack; the run without one is left out" in "\n".join(heard.said)
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
    assert (
        list(
            constraint_values(
                schema.ConstrainedAccuracy(constraint_min=low, contraint_step=step, constraint_max=high)
            )
        )
        == keys.split()
    )
