"""What an attack is credited with: samples at its goal now that were not there before."""

import math

import pytest
import torch
from spelling import Speller, cell, dataset, run

from limen.attacks.engine.run import Attack
from limen.cli.app import out
from limen.cli.run_table import print_run
from limen.core.types import Batch
from limen.experiments.engine import run as run_experiment
from limen.experiments.file import read_experiment
from limen.metrics.base.summary import summarise
from limen.models.base.load import load_model
from limen.tasks.base.columns import TASK_COLUMNS

DEAF = ["", "one", "two", "two", "four", "three"]
"""What a model says that takes every three for a two, and only something louder for a three."""
TEXTS = ["one three", "one two", "three", "four"]
NOISE = {"name": "random_noise", "budget": {"name": "snr", "snr_db": 60}}


def credit(rows):
    return [(row["success"], row["already"]) for row in rows]


def test_noise_that_changes_no_transcript_is_credited_with_nothing_although_clips_were_wrong_before(tmp_path):
    rows = run(
        "accuracy",
        cell(tmp_path, dataset(TEXTS), NOISE, model=Speller(DEAF), metrics=["wer", "correct", "fooled"]),
    ).rows
    assert [row["adversarial_prediction"] for row in rows] == [row["clean_prediction"] for row in rows]
    assert credit(rows) == [(False, True), (False, False), (False, True), (False, False)]
    stats = summarise(rows, TASK_COLUMNS)
    assert (
        stats["success"]["mean"],
        stats["success"]["count"],
        stats["success"]["n"],
        stats["already"]["mean"],
    ) == (0, 0, 2, 0.5)
    assert stats["fooled"]["mean"] == 0
    assert stats["correct"]["mean"] == 0.5  # accuracy under attack counts what was wrong before as wrong


def test_a_clip_that_was_wrong_before_is_fooled_if_its_transcript_changes_and_yet_no_success(tmp_path):
    attack = {"name": "pgd", "steps": 20, "early_stop": False, "budget": {"name": "linf", "eps": 0.4}}
    rows = run(
        "accuracy", cell(tmp_path, dataset(TEXTS), attack, model=Speller(DEAF), metrics=["wer", "fooled"])
    ).rows
    assert credit(rows) == [(False, True), (True, False), (False, True), (True, False)]
    assert [row["fooled"] for row in rows] == [1, 1, 1, 1]


def test_a_clip_that_says_the_target_before_is_no_success_of_a_targeted_attack(tmp_path):
    attack = {
        "name": "pgd",
        "steps": 40,
        "goal": {"name": "transcript", "text": "four"},
        "budget": {"name": "linf", "eps": 0.4},
    }
    rows = run("accuracy", cell(tmp_path, dataset(["four", "three", "one"]), attack)).rows
    assert [row["adversarial_prediction"] for row in rows] == ["four"] * 3
    assert credit(rows) == [(False, True), (True, False), (True, False)]


def test_a_picture_that_was_wrong_before_is_at_the_goal_but_no_success():
    model = load_model("cnn")
    x = torch.rand(6, *model.shape, generator=torch.Generator().manual_seed(0))
    said = model(x).argmax(1)
    y = torch.where(torch.arange(6) < 2, said, (said + 1) % 10)  # the last four are wrong as they are
    attack = Attack.parse({"name": "pgd", "steps": 40, "budget": {"name": "linf", "eps": 0.5}})
    found = attack(model, Batch("picture", [str(i) for i in range(6)], x, y))
    assert found.reached.all()
    assert found.already.tolist() == [False, False, True, True, True, True]
    assert found.success.tolist() == [True, True, False, False, False, False]
    assert found.success_rate == 1
    assert torch.equal(found.x_adv[2:], x[2:])
    alone = attack(model, Batch("picture", ["a"], x[5:], y[5:]))
    assert math.isnan(alone.success_rate)


def test_every_victim_of_a_transfer_has_its_own_samples_that_were_wrong_before(tmp_path):
    made = {"ctc_small": Speller(), "keyword_cnn": Speller(DEAF)}
    victims = [{"model": {"name": name}} for name in made]
    found = run(
        "transfer",
        cell(tmp_path, dataset(TEXTS), NOISE, open=lambda spec: made[spec["name"]]),
        victims=victims,
    )
    same, deaf = found.result["victims"].values()
    assert (same["success"], same["success_n"], deaf["success"], deaf["success_n"]) == (0, 4, 0, 2)


def test_summary_and_terminal_of_a_run_show_the_same_success_and_the_accuracy_stays(
    tmp_path, capsys: pytest.CaptureFixture[str]
):
    net = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 12}}
    tasks = [
        {
            "nets": [net],
            "attacks": [{"name": "random_noise", "budget": {"name": "linf", "eps": 1e-6}}],
            "metrics": [{"name": "correct"}],
        }
    ]
    summary = run_experiment(
        read_experiment({"tasks": tasks, "audit": False}, tmp_path / "a.yaml"), tmp_path / "run"
    )
    columns = summary["cells"][0]["summary"]["columns"]
    wrong = round(12 * (1 - columns["clean_correct"]["mean"]))
    assert wrong > 6  # random weights
    assert columns["correct"]["mean"] == columns["clean_correct"]["mean"]
    success = columns["success"]
    assert (success["mean"] or 0, success["count"], success["n"], success["left_out"]) == (
        0,
        0,
        12 - wrong,
        wrong,
    )
    print_run(summary, tmp_path / "run", out)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"12 {100 * (1 - wrong / 12):.1f} % {'0.0 %' if success['n'] else '-'}" in shown
    assert "Success: the attack reached its goal, among samples that were not at the goal before" in shown
