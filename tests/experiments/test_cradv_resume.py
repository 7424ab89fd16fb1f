"""CrAdv's files are planned, looked through before the first cell, and go on where they were stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cradv_files import HERE, Heard, failing_attack, idx, net, read, task, weights
from typer.testing import CliRunner

from limen.cli.app import app
from limen.core.errors import UserError
from limen.experiments.cradv.runner import run_cradv

NOISE, FGSM, JPEG = (
    {"attack_name": "random_noise"},
    {"attack_name": "fgsm", "attack_params": {"eps": 0.2}},
    {"defense_name": "jpeg"},
)


def results(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("result_*.json")}


class Stopped(Heard):
    """Is interrupted when the cell of this number begins."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def cell(self, number, count, words):
        if number == self.at:
            raise KeyboardInterrupt
        super().cell(number, count, words)


def test_a_stopped_run_goes_on_at_the_next_cell_and_keeps_what_is_finished(at, pictures):
    content = task("accuracy", [FGSM, NOISE], [JPEG], {"limit_samples": 3})
    given = {"mapping": {"/srv/pictures": str(pictures)}, "out": Path("mine"), "limit": None, "device": "cpu"}
    with pytest.raises(KeyboardInterrupt):
        run_cradv(content, HERE / "given.json", **given, progress=Stopped(3))
    before = results(Path("mine"))
    assert sorted(before) == ["digits/accuracy/result_1.json", "digits/accuracy_fgsm/result_1.json"]
    root, heard = at(content, out=Path("mine"), resume=True)
    assert "2 of 6 cells are finished and kept" in "\n".join(heard.said)
    assert len(heard.cells) == 4
    after = results(root)
    assert {k: after[k] for k in before} == before
    assert sorted(after) == sorted(
        f"digits/accuracy{d}{a}/result_1.json" for d in ("", "_jpeg") for a in ("", "_fgsm", "_random_noise")
    )
    at(content, out=Path("whole"))
    for name, result in results(Path("whole")).items():
        assert json.loads(result)["result"] == read(root / name)["result"]
    assert at(content, out=Path("mine"), resume=True)[1].cells == []


def begun(pictures):
    """A run from the command line, in the middle of its last cell, and its command."""
    content = task("accuracy", [NOISE, {"attack_name": "carlini_wagner"}], params={"limit_samples": 20})
    Path("long.json").write_text(json.dumps(content))
    command = ["run", "long.json", "--map", f"/srv/pictures={pictures}"]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen(
        [sys.executable, "-m", "limen.cli.app", *command],
        env=own,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(
        Path("results").glob("*/digits/accuracy_random_noise/result_1.json")
    ):
        assert started.poll() is None
        time.sleep(0.05)
    return content, command, started


def test_ctrl_c_says_how_to_go_on_and_a_second_run_into_the_folder_is_refused(at, pictures):
    _, command, started = begun(pictures)
    (root,) = Path("results").iterdir()
    second = CliRunner().invoke(app, [*command, "--out", str(root)])
    assert isinstance(second.exception, UserError)
    assert f"is being written by process {started.pid} on " in str(second.exception)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 130
    assert said.endswith(f"limen run long.json --map /srv/pictures={pictures} --resume\n"), said
    assert not (root / ".lock").exists()


def test_a_run_that_is_killed_in_the_middle_of_a_cell_is_resumed_from_the_command_line(at, pictures):
    content, command, started = begun(pictures)
    started.send_signal(signal.SIGKILL)
    started.wait()
    (root,) = Path("results").iterdir()
    before = results(root)
    content["tasks"][0]["attacks"][1]["attack_params"] = {
        "max_iterations": 3,
        "bin_search_steps": 1,
    }  # another, quicker cell
    Path("long.json").write_text(json.dumps(content))
    told = CliRunner().invoke(app, [*command, "--resume"])
    assert told.exit_code == 0, told.output
    assert "2 of 3 cells are finished and kept" in told.output
    assert results(root) == before | {
        "digits/accuracy_carlini_wagner/result_1.json": results(root)[
            "digits/accuracy_carlini_wagner/result_1.json"
        ]
    }


def test_what_decides_a_result_decides_whether_it_is_kept(at):
    content = task("accuracy", [FGSM], params={"limit_samples": 2})
    at(content, out=Path("mine"))
    changed = task("accuracy", [{**FGSM, "attack_params": {"eps": 0.3}}], params={"limit_samples": 2})
    assert at(changed, out=Path("mine"), resume=True)[1].cells == ["digits | accuracy | no defence | fgsm"]
    for options in ({"limit": 1}, {"exact": True}):
        assert len(at(content, out=Path("mine"), resume=True, **options)[1].cells) == 2
    weights("digits", 5)
    assert len(at(content, out=Path("mine"), resume=True)[1].cells) == 2, "the weights are others"
    assert len(at(content, out=Path("mine"))[1].cells) == 2, "without resume every cell runs"
    assert read(Path("mine/digits/accuracy/result_1.json"))["result"]["total"] == 2


def test_a_cell_that_failed_is_run_again_and_one_that_stands_twice_has_two_results(at):
    content = {
        **task("accuracy", [NOISE, NOISE, failing_attack()], params={"limit_samples": 2}),
        "config": {"safe_mode": True},
    }
    at(content, out=Path("mine"))
    assert at(content, out=Path("mine"), resume=True)[1].cells == [
        "digits | accuracy | no defence | adversarial_sticker"
    ]
    assert len(list(Path("mine/digits/accuracy_random_noise").glob("*.json"))) == 2
    assert len(list(Path("mine/digits/accuracy_adversarial_sticker").glob("*.json"))) == 2


def test_a_net_that_the_file_trains_is_not_trained_again(at):
    content = task("train", params={"epochs": 1, "lr": 0.05})
    content["tasks"] = [*task("accuracy")["tasks"], *content["tasks"], *task("accuracy", [FGSM])["tasks"]]
    at(content, out=Path("mine"))
    trained = Path("data/weights/digits.pth").read_bytes()
    shutil.rmtree("mine/digits/accuracy_fgsm")
    _, heard = at(content, out=Path("mine"), resume=True)
    assert heard.cells == ["digits | accuracy | no defence | fgsm"]
    assert Path("data/weights/digits.pth").read_bytes() == trained


def test_resuming_what_was_never_begun_says_so(at):
    with pytest.raises(UserError, match=r"no results of .*given\.json to resume in results/"):
        at(task("accuracy"), resume=True)
    Path("mine").mkdir()
    Path("mine/limen.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        at(task("accuracy"), out=Path("mine"), resume=True)


@pytest.mark.parametrize(
    "content",
    ["[]", '{"results": []}', '{"results": {"a": {}}}', '{"results": {"a": 5}}', "\x00", "[" * 100_000],
)
def test_a_damaged_index_is_refused_with_the_way_out(at, content):
    Path("mine").mkdir()
    Path("mine/limen.json").write_text(content)
    with pytest.raises(UserError, match=r"mine/limen\.json cannot be read.* Move it away"):
        at(task("accuracy"), out=Path("mine"), resume=True)


@pytest.mark.parametrize("content", [b"garbage", b"", b"\xff\xfe", b"[1, 2]", b"null"])
def test_a_damaged_result_is_computed_again(at, content):
    given = task("accuracy", [NOISE], params={"limit_samples": 2})
    at(given, out=Path("mine"))
    Path("mine/digits/accuracy/result_1.json").write_bytes(content)
    assert at(given, out=Path("mine"), resume=True)[1].cells == ["digits | accuracy | no defence | no attack"]
    assert at(given, out=Path("mine"), resume=True)[1].cells == []


AIMS = {
    "a sticker": (
        {"attack_name": "adversarial_sticker", "attack_params": {"adv_target": 77}},
        "adv_target has class 77",
    ),
    "random classes": (
        {
            "attack_name": "carlini_wagner",
            "attack_params": {"target_class": "random", "random_classes": "5 66"},
        },
        "random_classes has class 66",
    ),
}


@pytest.mark.parametrize("aim", AIMS)
def test_a_class_that_the_net_does_not_know_is_told_before_the_first_cell(at, aim):
    attack, words = AIMS[aim]
    with pytest.raises(UserError, match=f"{words}, but the net digits has only 10 classes, 0 to 9"):
        at(task("accuracy", [attack]), out=Path("mine"))
    assert not Path("mine").exists()


def test_values_of_a_variable_are_checked_before_the_first_cell_too(at):
    varied = [{"variable_name": "adv_target", "variable_values": [3, 77]}]
    content = task("accuracy", [{"attack_name": "adversarial_sticker"}])
    content["tasks"][0]["attack_variables"] = varied
    with pytest.raises(UserError, match="adv_target has class 77"):
        at(content, out=Path("mine"))


def test_everything_that_is_missing_is_told_before_the_first_cell(at, tmp_path):
    content = task(
        "accuracy",
        [{"attack_name": "adversarial_sticker", "attack_params": {"adv_sticker_path": "lost.png"}}],
    )
    imagenet = {
        "model_name": "resnet50",
        "datasource_name": "imagenet",
        "net_id": "r",
        "datasource_params": {"path": "/nowhere"},
    }
    lost = net() | {"net_id": "lost", "datasource_params": {"path": "/elsewhere"}}
    content["tasks"][0]["nets"] = [net(), lost, imagenet]
    content["tasks"] += task("accuracy", [{**FGSM, "specific_models": [{**imagenet, "net_id": "s"}]}])[
        "tasks"
    ]
    with pytest.raises(UserError) as found:
        at(content, out=Path("mine"))
    told = str(found.value)
    assert "Nothing was run, because of 4 problems" in told
    for part in ("no file lost.png", "net r: ", "net s: ", "/elsewhere"):
        assert part in told
    assert not Path("mine").exists()


@pytest.mark.parametrize("where", ["net", "surrogate"])
def test_classes_that_do_not_fit_are_refused_before_the_first_cell(at, pictures, where):
    import numpy as np
    from PIL import Image

    for split in ("train", "val"):
        for number in range(6):
            folder = Path("imagenet") / split / f"n{number}"
            folder.mkdir(parents=True)
            Image.fromarray(np.full((40, 40, 3), 40 * number, np.uint8)).save(folder / "a.png")
    shape = {"growth_rate": 4, "num_init_features": 8, "block_config": [1, 1, 1, 1]}
    small = {
        "model_name": "densenet121",
        "datasource_name": "imagenet",
        "net_id": "dense",
        "model_params": {"num_classes": 5, **shape},
        "datasource_params": {"path": "imagenet"},
    }
    content = task("accuracy", [FGSM])
    content["tasks"][0]["nets"] = [small]
    message = "has 6 classes, but the model densenet121 has only 5"
    if where == "surrogate":
        content["tasks"][0]["nets"] = [
            {**small, "net_id": "six", "model_params": {"num_classes": 6, **shape}}
        ]
        other = {**small, "model_params": {"num_classes": 8, **shape}}
        content["tasks"][0]["attacks"] = [{**FGSM, "specific_models": [other]}]
        message = "has 8 classes, but the net six has 6"
    with pytest.raises(UserError, match=message):
        at(content, out=Path("mine"))
    assert not Path("mine").exists()


def test_pictures_of_another_size_are_refused_before_the_first_cell(at, pictures, tmp_path):
    import numpy as np

    for part, n in (("train", 4), ("t10k", 4)):
        idx(tmp_path / f"wide/MNIST/raw/{part}-images-idx3-ubyte", np.zeros((n, 90, 90), np.uint8))
        idx(tmp_path / f"wide/MNIST/raw/{part}-labels-idx1-ubyte", np.zeros(n, np.uint8))
    content = task(
        "accuracy", defenses=[{"defense_name": "crop_rescale", "defense_params": {"crop_size": 60}}]
    )
    with pytest.raises(UserError, match="crops of 60 pixels: the pictures have only 28"):
        at(content, out=Path("mine"))
    content["tasks"][0]["defenses"] = []
    content["tasks"][0]["nets"] = [net(path=str(tmp_path / "wide"))]
    with pytest.raises(UserError, match=r"pictures of shape \(1, 90, 90\)"):
        at(content, out=Path("mine"))
    assert not Path("mine").exists()


def test_plan_lists_the_cells_of_a_crAdv_file_and_what_they_cost(at, pictures):
    shutil.copy(HERE / "accuracy.json", "file.json")
    mapped = ["--map", f"/srv/pictures={pictures}"]
    told = CliRunner().invoke(app, ["plan", "file.json", *mapped])
    assert told.exit_code == 0, told.output
    assert "6 cells, at most about" in told.output
    for words in (
        "digits | accuracy | no defence | no attack",
        "digits | accuracy | jpeg | i_fgsm",
        "belongs in attack_params",
    ):
        assert words in told.output
    assert not Path("found").exists()
    quick = CliRunner().invoke(app, ["plan", "file.json", "--quick"])
    assert quick.exit_code == 0, quick.output
    assert "6 cells" in quick.output
    assert isinstance(
        CliRunner().invoke(app, ["plan", "file.json"]).exception, UserError
    )  # the pictures are elsewhere


def test_options_of_crAdvs_files_are_refused_for_others(tmp_path):
    (tmp_path / "mine.yaml").write_text("tasks: [{nets: [{model: {name: mlp}, data: {name: digits}}]}]")
    for options in (["plan", "--map", "a=b"], ["run", "--map", "a=b"], ["run", "--cradv-exact"]):
        told = CliRunner().invoke(app, [options[0], str(tmp_path / "mine.yaml"), *options[1:]])
        assert isinstance(told.exception, UserError)
        assert f"{options[1]} is for CrAdv task files" in str(told.exception)
