"""Detectors: what is refused is no success and no answer, from the model to the rows of a run."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor, nn

import limen
from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Batch, GuardedOutputs, Outputs, Samples
from limen.defenses.base.compose import defended
from limen.defenses.base.detector import Detector, threshold_for
from limen.defenses.base.options import DefenseOptions
from limen.defenses.feature_squeezing import median_filter
from limen.experiments.engine import run
from limen.experiments.file import read_experiment
from limen.experiments.folder import read_table
from limen.metrics.base.apply import applicable, measure
from limen.models.base.model import Classifier, Model


class Bright(DefenseOptions):
    threshold: float = 0.5
    """Pictures with a brighter pixel are refused."""
    pixel: int = -1
    """Number of that pixel."""


class RefusesBright(Detector):
    def __init__(self, model: Model, options: Bright):
        super().__init__(model, options, options.threshold)
        self.pixel = options.pixel

    def score(
        self,
        x: Tensor,
        outputs: Outputs,
        lengths: Tensor | None,
        generators: Sequence[torch.Generator] | None,
    ) -> Tensor:
        return x.flatten(1)[:, self.pixel]


def bright(model: Model, options: Bright) -> Model:
    return RefusesBright(model, options)


class Sums(nn.Module):
    """Class 1 if the two pixels sum to more than 1."""

    def forward(self, x: Tensor) -> Tensor:
        total = x.flatten(1).sum(1)
        return torch.stack([torch.ones_like(total), total], 1) * 10


def pictures(*pixels: tuple[float, float], y: int = 0) -> Batch:
    x = torch.tensor(pixels).view(-1, 1, 1, 2)
    return Batch("picture", [str(i) for i in range(len(x))], x, torch.full((len(x),), y))


@pytest.fixture
def guarded(throw_away) -> Model:
    throw_away("bright", bright, Bright)
    return defended(Classifier(Sums(), "picture", ["dark", "light"]), ["bright"])


def test_the_outputs_hold_the_answers_and_who_is_refused(guarded):
    outputs = guarded(torch.tensor([[0.1, 0.2], [0.1, 0.9]]).view(2, 1, 1, 2))
    assert isinstance(outputs, GuardedOutputs)
    assert outputs.refused.tolist() == [False, True]
    torch.testing.assert_close(outputs.suspicion, torch.tensor([-0.3, 0.4]))
    assert outputs.rows(torch.tensor([1])).refused.tolist() == [True]


def test_either_of_two_detectors_refuses_and_transforms_before_them_are_seen(throw_away):
    throw_away("bright", bright, Bright)
    bare = Classifier(Sums(), "picture", ["dark", "light"])
    x = torch.tensor([[0.1, 0.4], [0.1, 0.6]]).view(2, 1, 1, 2)
    two = defended(bare, [{"name": "bright", "threshold": 0.3}, {"name": "bright", "threshold": 0.5}])
    assert two(x).refused.tolist() == [True, True]
    rounded = defended(bare, ["bit_depth:1", "bright"])  # 0.4 becomes 0, 0.6 becomes 1
    assert rounded(x).suspicion.tolist() == [-0.5, 0.5]


@pytest.mark.parametrize("name", ["pgd", "apgd", "mi_fgsm"])
def test_an_attack_that_knows_the_detector_evades_it_and_one_that_does_not_is_refused(guarded, name):
    batch = pictures((0.45, 0.45), (0.4, 0.5))
    attack = Attack.parse({"name": name, "budget": {"name": "linf", "eps": 0.3}})
    adaptive, blind = attack(guarded, batch), attack(guarded.inner, batch, victim=guarded)
    assert adaptive.success.all()
    assert not adaptive.adversarial.refused.any()
    assert blind.adversarial.refused.any()
    assert not (blind.success & blind.adversarial.refused).any(), "what is refused is no success"


def test_an_attack_without_gradients_knows_the_detector_too(guarded):
    attack = Attack.parse({"name": "nes", "budget": {"name": "linf", "eps": 0.3}, "queries": 800})
    result = attack(guarded, pictures((0.45, 0.45)))
    assert result.success.all()
    assert not result.adversarial.refused.any()


def test_an_attack_that_reads_single_logits_says_that_it_cannot_know_the_detector(guarded):
    with pytest.raises(UserError, match="cannot evade the detector"):
        Attack.parse("deepfool")(guarded, pictures((0.45, 0.45)))


def test_a_refused_sample_is_not_answered(guarded):
    batch = pictures((0.1, 0.2), (0.1, 0.9))
    x_adv = torch.tensor([[0.9, 0.9], [0.9, 0.4]]).view(2, 1, 1, 2)
    samples = Samples(batch, x_adv, clean=guarded(batch.x), adversarial=guarded(x_adv))
    rows = measure(samples, applicable(["correct", "fooled"], "picture", "class", True))
    assert [row["clean_correct"] for row in rows] == [1.0, 0.0], "the second is right, but refused"
    assert [row["correct"] for row in rows] == [0.0, 0.0]
    top = measure(samples, applicable([{"name": "top_k", "k": 1}], "picture", "class", True))
    assert [(row["clean_top_1"], row["top_1"]) for row in top] == [(1.0, 0.0), (0.0, 0.0)]
    assert [row["fooled"] for row in rows] == [0.0, 1.0], "the first is refused, the second is not"


def test_an_experiment_with_a_detector_writes_what_was_refused(tmp_path, throw_away):
    throw_away("bright", bright, Bright)
    pgd = {"name": "pgd", "steps": 5, "budget": {"name": "linf", "eps": 0.3}}
    task = {
        "nets": [{"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 40}}],
        "defenses": [None, [{"name": "bit_depth"}, {"name": "bright", "pixel": 20}]],
        "attacks": [None, pgd],
    }
    run(read_experiment({"tasks": [task]}, tmp_path / "test.yaml"), tmp_path / "run")
    cells = {}
    for path in sorted((tmp_path / "run" / "cells").glob("*/cell.json")):
        cell = json.loads(path.read_text())
        rows = read_table(path.parent / "rows.parquet")
        cells[cell["labels"]["defense"], cell["labels"]["attack"]] = rows
    behind = cells["bit_depth + bright", "pgd"]
    assert "refused" not in cells["none", "pgd"][0]
    refused = [row for row in behind if row["refused"]]
    assert len(refused) < len(behind)
    assert not any(row["success"] or row["correct"] for row in refused)
    clean = cells["bit_depth + bright", "none"]
    some = [row for row in clean if row["clean_refused"]]
    assert 0 < len(some) < 40
    assert not any(row["clean_correct"] for row in some)


def test_the_threshold_refuses_at_most_the_wanted_share_of_clean_samples():
    scores = torch.rand(200, generator=torch.Generator().manual_seed(0))
    threshold = threshold_for(scores, 0.05)
    assert (scores > threshold).sum() == 10
    assert threshold_for(scores, 0.0) == float(scores.max())


def test_the_median_filter_is_that_of_scipy():
    x = torch.rand(2, 3, 7, 5, generator=torch.Generator().manual_seed(0))
    for size in (2, 3, 4):
        expected = ndimage.median_filter(x.numpy(), (1, 1, size, size), mode="reflect")
        assert np.array_equal(median_filter(x, size).numpy(), expected), size


def test_feature_squeezing_scores_the_change_of_the_probabilities():
    bare = Classifier(Sums(), "picture", ["dark", "light"])
    model = limen.defend(bare, {"name": "feature_squeezing", "threshold": 0, "bits": 1, "median": None})
    x = torch.tensor([[0.45, 0.45], [1.0, 0.0]]).view(2, 1, 1, 2)
    squeezed = torch.tensor([[0.0, 0.0], [1.0, 0.0]]).view(2, 1, 1, 2)
    expected = (bare(x).softmax(1) - bare(squeezed).softmax(1)).abs().sum(1)
    torch.testing.assert_close(model(x).suspicion, expected)
    assert model(x).suspicion[1] == 0
    with pytest.raises(UserError, match="at least one of bits and median"):
        limen.defend(bare, {"name": "feature_squeezing", "threshold": 1, "bits": None, "median": None})
