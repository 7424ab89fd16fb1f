"""Outputs are declared by the model and the kind of truth by the data: classes, transcripts, embeddings, signals
and distances."""

import pytest
import torch
from torch import nn

from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import OUTPUTS, TRUTHS, Sample, Values, collate, different, predictions
from limen.data.base.dataset import Dataset
from limen.metrics.base.apply import applicable
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Classifier, Model, check_fits


class Halved(Model):
    """A signal: half of the clip."""

    kind, output, rate_hz = "clip", "signal", 8000

    def forward(self, x, lengths=None, generators=None):
        return Values("signal", x / 2, lengths)


class Moments(Model):
    """An embedding: mean and power of the clip."""

    kind, output, rate_hz = "clip", "embedding", 8000

    def forward(self, x, lengths=None, generators=None):
        return Values("embedding", torch.stack([x.mean(1), x.square().mean(1)], 1))


class Loudness(Model):
    """A distance: how far the clip is from silence."""

    kind, output, rate_hz = "clip", "distance", 8000

    def forward(self, x, lengths=None, generators=None):
        return Values("distance", x.norm(dim=1))


def clips(*truths, lengths=(4, 2, 3)):
    return collate(
        "clip",
        [
            Sample(str(i), torch.full((n,), 0.5), y)
            for i, (n, y) in enumerate(zip(lengths, truths, strict=True))
        ],
    )


CLASSES = clips(0, 1, 1)
TEXTS = clips("a", "b", "c")
SIGNALS = clips(torch.ones(4), torch.ones(2), torch.ones(3))
NUMBERS = clips(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0))


def test_true_signals_are_padded_and_keep_their_lengths():
    assert SIGNALS.truth == "signal"
    assert SIGNALS.y.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert SIGNALS.y_lengths.tolist() == [4, 2, 3]
    part = SIGNALS.rows([2, 0])
    assert part.ids == ["2", "0"]
    assert part.y.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert part.y_lengths.tolist() == [3, 4]
    assert SIGNALS.to("cpu").y_lengths.tolist() == [4, 2, 3]


def test_true_signals_of_several_channels_are_padded_along_time():
    batch = clips(torch.ones(2, 4), torch.ones(2, 2), torch.ones(2, 3))
    assert batch.y.shape == (3, 2, 4)
    assert batch.y.sum((1, 2)).tolist() == [8, 4, 6]
    assert batch.y_lengths.tolist() == [4, 2, 3]


def test_true_numbers_have_no_lengths():
    assert NUMBERS.truth == "signal"
    assert NUMBERS.y.tolist() == [1, 2, 3]
    assert NUMBERS.y_lengths is None


def test_a_picture_may_have_a_picture_as_its_truth():
    batch = collate("picture", [Sample(str(i), torch.rand(1, 4, 4), torch.rand(1, 4, 4)) for i in range(2)])
    assert batch.y.shape == (2, 1, 4, 4)
    assert batch.truth == "signal"


def test_classes_and_transcripts_are_told_apart_by_their_truth():
    assert [b.truth for b in (CLASSES, TEXTS)] == ["class", "transcript"]
    assert CLASSES.y_lengths is None


MODELS = {m.output: m for m in (Halved(), Moments(), Loudness())}
BATCHES = {"class": [CLASSES], "transcript": [TEXTS], "signal": [SIGNALS, NUMBERS]}


@pytest.mark.parametrize("output", MODELS)
def test_a_model_is_refused_for_data_whose_truth_its_output_cannot_be_compared_with(output):
    for truth, batches in BATCHES.items():
        for batch in batches:
            if truth not in TRUTHS[output]:
                with pytest.raises(UserError, match=f"gives a {output}, .* the data's truth is a {truth}"):
                    check_fits(MODELS[output], batch)


def test_true_signals_must_have_the_shape_and_length_of_their_samples():
    check_fits(MODELS["signal"], SIGNALS)
    with pytest.raises(UserError, match="shapes and lengths"):
        check_fits(MODELS["signal"], NUMBERS)
    shorter = clips(torch.ones(4), torch.ones(2), torch.ones(2))
    with pytest.raises(UserError, match="shapes and lengths"):
        check_fits(MODELS["signal"], shorter)


def test_predictions_of_values_are_the_values():
    for output, model in MODELS.items():
        outputs = model(SIGNALS.x, SIGNALS.lengths)
        assert outputs.output == output
        assert torch.equal(predictions(outputs), outputs.values)
        some = outputs.rows(torch.tensor([2, 0]))
        assert torch.equal(some.values, outputs.values[[2, 0]])
    assert MODELS["signal"](SIGNALS.x, SIGNALS.lengths).rows(torch.tensor([1])).lengths.tolist() == [2]


def test_two_signals_differ_if_any_of_their_values_does():
    a = torch.zeros(3, 4)
    b = a.clone()
    b[1, 2] = 1
    assert different(a, b).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("output", "shape"), [("class", (2, 3)), ("transcript", (2,)), ("embedding", (2,)), ("distance", (2, 1))]
)
def test_values_of_another_form_than_declared_are_refused(output, shape):
    with pytest.raises(ValueError, match=f"not an output of the kind {output}"):
        Values(output, torch.zeros(shape))


def test_models_of_different_outputs_make_no_ensemble():
    with pytest.raises(UserError, match="must have the same kind, output"):
        Ensemble([MODELS["signal"], MODELS["embedding"]])
    both = Ensemble([Halved(), Halved()])
    assert (both.output, both.kind, both.rate_hz) == ("signal", "clip", 8000)
    assert torch.equal(predictions(both(SIGNALS.x)), SIGNALS.x / 2)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_an_attack_on_a_model_without_classes_or_transcripts_is_refused_clearly(model):
    attack = Attack.parse({"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}})
    with pytest.raises(UserError, match=f"this one gives {model.output}s"):
        attack(model, CLASSES)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_losses_and_transcripts_are_for_classifiers_and_recognisers(model):
    with pytest.raises(UserError, match=f"output is a {model.output}"):
        model.losses(CLASSES.x, CLASSES.y)
    with pytest.raises(UserError, match=f"output is a {model.output}"):
        model.transcribe(CLASSES.x)


@pytest.mark.parametrize("output", OUTPUTS)
def test_distortion_is_measured_for_models_of_every_output(output):
    assert {"snr_db", "linf", "l2"} <= {c.name for c, _ in applicable(None, "clip", output, True)}


def test_metrics_of_classes_are_not_computed_for_signals():
    assert not {"correct", "fooled", "confidence", "wer"} & {
        c.name for c, _ in applicable(None, "clip", "signal", True)
    }
    with pytest.raises(UserError, match="needs a model that outputs classes, and this one outputs signals"):
        applicable(["confidence"], "clip", "signal", True)


def test_a_data_set_names_classes_if_and_only_if_its_truth_is_a_class():
    for classes, truth in ((None, "class"), (["a", "b"], "transcript"), (["a", "b"], "signal")):
        with pytest.raises(ValueError, match="if and only if"):
            Dataset("d", "clip", [0], lambda key: CLASSES, classes, truth=truth)


def test_a_wrapper_declares_what_the_wrapped_model_does():
    inner = Classifier(nn.Flatten(), "picture", ["a", "b"], shape=(2, 1, 1))
    inner.random, inner.draws = True, 3
    outer = Model()
    outer.copy_facts(inner)
    facts = lambda m: (m.kind, m.output, m.classes, m.rate_hz, m.shape, m.random, m.draws)
    assert facts(outer) == facts(inner) == ("picture", "class", ["a", "b"], None, (2, 1, 1), True, 3)
