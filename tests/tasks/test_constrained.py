"""Curves of a recogniser: pooled error rates, and noise of exactly the same energy beside them."""

import jiwer
import pytest
import torch
from spelling import cell, clip, dataset, run

from limen.core import seeds
from limen.core.statistics import pooled
from limen.core.types import Batch, Sample, collate
from limen.tasks.base.noise_control import equal_noise

TEXTS = ["one two three", "four", "two one", "three three"]
ATTACK = {"name": "pgd", "steps": 10, "random_start": False, "budget": {"name": "snr", "snr_db": 30}}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    ready = cell(tmp_path_factory.mktemp("cell"), dataset(TEXTS), ATTACK)
    return run("constrained_accuracy", ready, constraint="snr", values=[60, 10, 5])


def test_the_error_rates_of_a_curve_are_those_of_the_whole_set(outcome):
    for k, value in enumerate([60, 10, 5]):
        here = [row for row in outcome.rows if row["value"] == value]
        assert [row["label"] for row in here] == TEXTS
        heard, control = (
            [row["adversarial_prediction"] for row in here],
            [row["control_prediction"] for row in here],
        )
        assert outcome.result["wer"][k] == pytest.approx(jiwer.wer(TEXTS, heard))
        assert outcome.result["cer"][k] == pytest.approx(jiwer.cer(TEXTS, heard))
        assert outcome.result["control"]["wer"][k] == pytest.approx(jiwer.wer(TEXTS, control))
        assert outcome.result["accuracy"][k] == sum(h == t for h, t in zip(heard, TEXTS, strict=True)) / 4
        whole = pooled([row["word_errors"] for row in here], [row["words"] for row in here])
        assert (outcome.result["wer_low"][k], outcome.result["wer_high"][k]) == (whole["low"], whole["high"])


def test_the_attack_does_harm_where_noise_of_the_same_energy_does_not(outcome):
    assert outcome.result["wer"][0] == outcome.result["control"]["wer"][0] == 0
    assert outcome.result["wer"][-1] > 0.8
    assert outcome.result["control"]["wer"][-1] < 0.2
    assert outcome.result["control"]["name"] == "gaussian noise"
    assert set(outcome.result["control"]) == {
        "name",
        "accuracy",
        "low",
        "high",
        "fooling_rate",
        "wer",
        "wer_low",
        "wer_high",
        "cer",
        "cer_low",
        "cer_high",
    }


def test_classes_have_no_place_among_transcripts(outcome):
    assert outcome.result["by_class"] == {}


def test_the_control_can_be_left_out(tmp_path):
    found = run(
        "constrained_accuracy",
        cell(tmp_path, dataset(TEXTS), ATTACK),
        constraint="snr",
        values=[10],
        control=False,
    )
    assert "control" not in found.result
    assert "control_prediction" not in found.rows[0]


def norm(x, x_adv, n):
    return float((x_adv - x)[:n].double().norm())


@pytest.mark.parametrize(("store", "tolerance"), [("float", 1e-6), ("int16", 5e-4)])
@pytest.mark.parametrize("size", [0.001, 0.05])
def test_the_noise_has_exactly_the_energy_of_the_change(store, tolerance, size):
    # 16 bits: as exactly as the rounding of clips of 100 samples and more allows
    batch = collate("clip", [Sample(str(i), clip(text), text) for i, text in enumerate(TEXTS)])
    x_adv = batch.x + size * torch.sin(torch.arange(batch.x.shape[1]) / 7)
    noise = equal_noise(batch, x_adv, seeds.generators(0, batch.ids, "control"), store)
    for i, n in enumerate(batch.lengths.tolist()):
        assert norm(batch.x[i], noise[i], n) == pytest.approx(norm(batch.x[i], x_adv[i], n), rel=tolerance)
        assert (noise[i, n:] == 0).all()
        alone = Batch("clip", [batch.ids[i]], batch.x[i : i + 1, :n], [TEXTS[i]], batch.lengths[i : i + 1])
        again = equal_noise(alone, x_adv[i : i + 1, :n], seeds.generators(0, alone.ids, "control"), store)
        torch.testing.assert_close(again[0], noise[i, :n], atol=1e-6, rtol=0)


def test_what_the_range_cuts_off_is_made_up_for():
    x = torch.rand(3, 1, 8, 8).round()  # black and white: half of every draw is cut off
    batch = Batch("picture", list("abc"), x, torch.zeros(3, dtype=torch.long))
    x_adv = (x - 0.5) * 0.8 + 0.5
    noise = equal_noise(batch, x_adv, seeds.generators(0, batch.ids, "control"), "float")
    assert noise.min() >= 0
    assert noise.max() <= 1
    for i in range(3):
        assert norm(x[i], noise[i], 8) == pytest.approx(norm(x[i], x_adv[i], 8), rel=1e-5)


def test_no_change_has_no_noise():
    batch = collate("clip", [Sample("a", clip("one"), "one")])
    assert torch.equal(equal_noise(batch, batch.x, seeds.generators(0, ["a"], "control"), "int16"), batch.x)
