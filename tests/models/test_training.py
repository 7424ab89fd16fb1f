"""Training: it learns, it is the same each time, and an interrupted one continues exactly."""

import json
import re
from dataclasses import replace

import pytest
import torch
from fitting import train

import limen
from limen.attacks.engine.run import Attack
from limen.core.components import parse
from limen.core.edits import edits
from limen.core.errors import UserError
from limen.core.seeds import generators
from limen.core.statistics import wilson
from limen.core.types import Batch, Sample, Values
from limen.data.base.dataset import Dataset
from limen.models.base.load import ZOO, load_model
from limen.models.base.model import Model, inner
from limen.models.training import loop
from limen.models.training.augment import AugmentOptions, augment, coloured, masking, warped
from limen.models.training.card import read_card, write_card
from limen.models.training.options import TrainOptions, learning_rate
from limen.models.training.score import score
from limen.objectives.base.objective import objective_for


def digits(split, limit=None):
    component, options = parse("data", {"name": "digits", "split": split, "limit": limit})
    return component.function(options)


def fresh(name="mlp", **options):
    return load_model({"name": name, "weights": "random", **options})


def weights(model):
    return torch.cat([v.float().flatten() for v in model.state_dict().values()])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"optimizer": "sgd", "nesterov": True, "lr": 0.05}),
        ("cnn", {"optimizer": "adamw", "shift_px": 1}),
    ],
)
def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(tmp_path, name, options):
    asked = TrainOptions(epochs=3, schedule="cosine", batch_size=50, **options)
    whole = fresh(name)
    history = train(whole, digits("train", 300), digits("valid"), asked, tmp_path / "whole", seed=7)

    def stop(done, text):
        if done > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            fresh(name), digits("train", 300), digits("valid"), asked, tmp_path / "cut", seed=7, progress=stop
        )
    torch.manual_seed(99)
    resumed = fresh(name, init_seed=1)  # the checkpoint decides, not the start
    assert train(resumed, digits("train", 300), digits("valid"), asked, tmp_path / "cut", seed=7) == history
    assert torch.equal(weights(whole), weights(resumed))
    assert (tmp_path / "whole/weights.safetensors").read_bytes() == (
        tmp_path / "cut/weights.safetensors"
    ).read_bytes()
    assert json.loads((tmp_path / "cut/history.json").read_text()) == history


def test_training_leaves_the_global_generator_alone_and_learns(tmp_path):
    model = fresh()
    before = torch.get_rng_state()
    history = train(
        model, digits("train"), digits("valid"), TrainOptions(epochs=8, lr=0.01, batch_size=32), tmp_path
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]
    assert score(model, digits("test"))["accuracy"] > 0.9


def test_saved_weights_load_as_a_model(tmp_path):
    model = fresh("cnn")
    train(model, digits("train", 100), None, TrainOptions(epochs=1), tmp_path)
    again = load_model({"name": "cnn", "weights": str(tmp_path / "weights.safetensors")})
    assert torch.equal(weights(model), weights(again))


def test_a_checkpoint_of_another_training_is_not_continued(tmp_path):
    train(fresh(), digits("train", 60), None, TrainOptions(epochs=1), tmp_path)
    other = TrainOptions(epochs=1, lr=0.5)
    with pytest.raises(UserError, match=r"another training: options\.lr is 0\.5 here and 0\.001 there"):
        train(fresh(), digits("train", 60), None, other, tmp_path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, "seed is 1 here and 0 there"),
        ({"spec": {"model": {"name": "cnn"}}}, "spec.model.name is 'cnn' here and 'mlp' there"),
        ({"model": {"hidden": [32]}}, "weights"),
        ({"limit": 50}, "train_set.samples is 50 here and 60 there"),
        ({"valid": "valid"}, "valid_set"),
        ({"objective": {"name": "trades"}}, "objective.name is 'trades' here and 'cross_entropy' there"),
        ({"shift_px": 1}, "options.shift_px is 1 here and 0 there"),
    ],
)
def test_everything_that_shapes_a_training_is_part_of_its_identity(tmp_path, changed, named):
    def run(seed=0, spec=None, model=None, limit=60, valid=None, **options):
        spec = spec or {"model": {"name": "mlp"}}
        held_out = None if valid is None else digits(valid, 20)
        made = TrainOptions(epochs=1, **options)
        train(fresh(**(model or {})), digits("train", limit), held_out, made, tmp_path, seed=seed, spec=spec)

    run()
    run()
    with pytest.raises(UserError, match=re.escape(named)):
        run(**changed)


def test_a_checkpoint_of_another_version_of_a_package_is_not_continued(tmp_path, monkeypatch):
    options = TrainOptions(epochs=1)
    train(fresh(), digits("train", 60), None, options, tmp_path)
    monkeypatch.setattr(limen, "__version__", "99")
    with pytest.raises(UserError, match=r"versions\.limen is '99' here"):
        train(fresh(), digits("train", 60), None, options, tmp_path)


def test_patience_ends_the_training_and_the_best_epoch_is_kept(tmp_path):
    model = fresh()
    history = train(
        model,
        digits("train", 200),
        digits("valid"),
        TrainOptions(epochs=50, lr=0.5, optimizer="adam", patience=2),
        tmp_path,
    )
    accuracy = [row["valid_accuracy"] for row in history]
    assert len(history) < 50
    assert max(accuracy[-2:]) < max(accuracy)
    assert score(model, digits("valid"))["accuracy"] == max(accuracy)


class Blind:
    """An objective of the caller's own: the default loss on black pictures."""

    def __init__(self):
        self.spec, self.sizes = {"name": "blind"}, []

    def __call__(self, model, batch, streams):
        self.sizes.append(len(batch))
        assert model.training
        return objective_for(model)(model, replace(batch, x=torch.zeros_like(batch.x)), streams)


def test_the_loop_takes_any_objective(tmp_path):
    blind = Blind()
    options = TrainOptions(epochs=1, batch_size=32)
    loop.train(fresh(), digits("train", 64), None, options, tmp_path, objective=blind)
    assert blind.sizes == [32, 32]


def test_adversarial_training_gives_a_more_robust_model(tmp_path):
    attack = {"name": "pgd", "steps": 3, "early_stop": False, "budget": {"name": "linf", "eps": 0.15}}
    robust = {}
    for name, objective in (("plain", None), ("adversarial", {"name": "adversarial", "attack": attack})):
        model = fresh()
        options = TrainOptions(epochs=8, lr=0.01, batch_size=32, objective=objective)
        train(model, digits("train", 500), None, options, tmp_path / name)
        batch = digits("test", 100).all()
        robust[name] = int((~Attack.parse(attack)(model, batch).reached).sum())
    assert robust["adversarial"] > robust["plain"] + 20


def test_an_unshuffled_training_keeps_the_order_of_the_data(tmp_path):
    seen = []

    class Watching(Blind):
        def __call__(self, model, batch, streams):
            seen.extend(batch.ids)
            return super().__call__(model, batch, streams)

    data = digits("train", 40)
    for shuffle in (False, True):
        options = TrainOptions(epochs=1, batch_size=16, shuffle=shuffle)
        loop.train(fresh(), data, None, options, tmp_path / str(shuffle), objective=Watching())
    assert seen[:40] == [sample.id for sample in data]
    assert sorted(seen[40:]) == sorted(seen[:40])
    assert seen[40:] != seen[:40]


class Louder(Model):
    """A signal: the clip times a learned factor."""

    kind, output = "clip", "signal"

    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x, lengths=None, generators=None):
        return Values("signal", self.factor * x, lengths)


def test_a_model_of_signals_is_trained_scored_and_kept_by_its_error(tmp_path):
    g = torch.Generator().manual_seed(0)
    clips = [torch.rand(20 + i, generator=g) - 0.5 for i in range(8)]
    data = Dataset(
        "halves", "clip", range(8), lambda i: Sample(str(i), clips[i], clips[i] / 2), truth="signal"
    )
    model = Louder()
    options = TrainOptions(epochs=30, batch_size=4, lr=0.05)
    history = train(model, data, data, options, tmp_path)
    assert model.factor.item() == pytest.approx(0.5, abs=0.02)
    assert score(model, data) == {"n": 8, "error": min(row["valid_error"] for row in history)}


def test_a_recogniser_learns_its_transcripts(tmp_path):
    tones = {"a": 400.0, "b": 1500.0}

    def clip(key):
        t = torch.arange(1600) / 16000
        return Sample(key, torch.cat([0.3 * torch.sin(2 * torch.pi * tones[c] * t) for c in key]), key)

    data = Dataset("tones", "clip", ["a", "b", "ab", "ba"], clip, rate_hz=16000, truth="transcript")
    model = load_model({"name": "ctc_small", "weights": "random", "width": 32, "dropout": 0})
    history = train(model, data, None, TrainOptions(epochs=60, batch_size=4, lr=0.03, clip_norm=5), tmp_path)
    assert history[-1]["loss"] < 0.1 * history[0]["loss"]
    assert score(model, data)["cer"] == 0


def test_models_and_data_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(UserError, match="takes clips, but digits holds pictures"):
        train(fresh("res8"), digits("train"), None, TrainOptions(), tmp_path)
    with pytest.raises(UserError, match="3 classes, but digits has 10"):
        train(fresh(classes=3), digits("train"), None, TrainOptions(), tmp_path)
    with pytest.raises(UserError, match=r"\(1, 28, 28\)"):
        train(fresh(size=28), digits("train"), None, TrainOptions(), tmp_path)


def test_learning_rates_follow_their_schedules():
    cosine = TrainOptions(epochs=10, lr=1.0, schedule="cosine", warmup_epochs=2)
    assert [round(learning_rate(cosine, at), 6) for at in (0.0, 1.0, 2.0, 6.0, 10.0)] == [
        0.0,
        0.5,
        1.0,
        0.5,
        0.0,
    ]
    step = TrainOptions(lr=1.0, schedule="step", step_epochs=3, step_factor=0.1)
    assert [learning_rate(step, at) for at in (0, 2.9, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])


def test_a_sample_is_augmented_the_same_in_any_company():
    options = AugmentOptions(shift_px=2, flip=True, crop=0.7)
    x, ids = torch.rand(5, 3, 12, 12), list("abcde")
    together = augment(Batch("picture", ids, x, torch.zeros(5)), generators(0, ids), options, None).x
    alone = [
        augment(Batch("picture", [i], x[k : k + 1], torch.zeros(1)), generators(0, [i]), options, None).x
        for k, i in enumerate(ids)
    ]
    assert torch.equal(together, torch.cat(alone))
    assert not torch.equal(together, x)


def test_augmented_clips_keep_their_length_range_and_padding():
    x = torch.rand(2, 1600) * 2 - 1
    x[1, 900:] = 0
    options = AugmentOptions(shift_ms=20, noise=0.1, gain_db=6)
    changed = augment(
        Batch("clip", ["a", "b"], x, torch.zeros(2), torch.tensor([1600, 900])),
        generators(0, ["a", "b"]),
        options,
        16000,
    )
    assert changed.x.abs().max() <= 1
    assert (changed.x[1, 900:] == 0).all()
    assert not torch.equal(changed.x, x)


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.0])
def test_coloured_noise_falls_as_its_slope_says(slope):
    n = coloured(1 << 17, slope, torch.Generator().manual_seed(0))
    power = torch.fft.rfft(n).abs().square()
    bands = torch.stack([power[2**k : 2 ** (k + 1)].mean() for k in range(6, 16)]).log2()
    assert (bands[1:] - bands[:-1]).mean().item() == pytest.approx(-slope, abs=0.05)
    assert n.square().mean().item() == pytest.approx(1, abs=1e-4)


def test_edit_distances_and_intervals_are_the_known_ones():
    import jiwer

    for said, heard in (
        ("one two three", "one three"),
        ("a b", "a b"),
        ("one", "two two"),
        ("kitten in", "sitting"),
    ):
        assert edits(said.split(), heard.split()).errors == round(jiwer.wer(said, heard) * len(said.split()))
        assert edits(said, heard).errors == round(jiwer.cer(said, heard) * len(said))
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=2e-4)  # Newcombe 1998, table I


def test_a_card_says_what_was_trained_and_how_well(tmp_path):
    model, options = fresh(), TrainOptions(epochs=1, lr=0.01)
    history = train(model, digits("train", 100), None, options, tmp_path)
    test = score(model, digits("test", 50))
    card = write_card(
        tmp_path,
        model,
        spec={"name": "mlp", "weights": "random"},
        data={"name": "digits"},
        options=options,
        seed=3,
        history=history,
        test=test,
    )
    assert card == json.loads((tmp_path / "card.json").read_text())
    assert card["model"] == {"name": "mlp"}
    assert card["parameters"] == 64 * 64 + 64 + 640 + 10
    assert card["train"] == {"epochs": 1, "lr": 0.01}
    assert card["test"]["n"] == 50


@pytest.mark.parametrize("name", ["ctc_small", "deepspeech2", "lstm_seq2seq", "transformer_seq2seq"])
def test_features_of_clips_end_to_end_are_masked_clip_by_clip(tmp_path, name):
    """A clip's features are masked by its own stream, alone as in a batch of clips of other lengths."""
    model = fresh(name, dropout=0).train()
    x, lengths = torch.rand(3, 8000) - 0.5, torch.tensor([8000, 5000, 6400])
    options = AugmentOptions(mask_frames=12, mask_bands=8, warp_bands=0.1)
    texts = ["one", "two", "a"]

    def losses(rows):
        streams = generators(0, [str(i) for i in rows])
        with torch.no_grad(), masking(inner(model), streams, options):
            return model(x[rows, : int(lengths[rows].max())], lengths[rows]).nll([texts[i] for i in rows])

    together = losses([0, 1, 2])
    torch.testing.assert_close(together, torch.cat([losses([i]) for i in range(3)]), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        plain = model(x, lengths).nll(texts)
    assert ((together - plain).abs() > 1e-3).all()
    with masking(inner(model.eval()), generators(0, ["0", "1", "2"]), options), torch.no_grad():
        torch.testing.assert_close(model(x, lengths).nll(texts), plain, rtol=1e-4, atol=1e-4)


def test_masking_needs_a_model_with_features(tmp_path):
    options = TrainOptions(epochs=1, mask_bands=2)
    with pytest.raises(UserError, match="features can be masked"):
        train(fresh(), digits("train", 20), None, options, tmp_path)


def test_bands_are_stretched_by_the_factor_of_their_own_clip():
    ramp = torch.arange(10.0).expand(3, 4, 10)
    out = warped(ramp, [1.0, 0.5, 1.1])
    assert torch.equal(out[0], ramp[0])
    torch.testing.assert_close(out[1], ramp[1] * 0.5)
    torch.testing.assert_close(out[2], (ramp[2] * 1.1).clamp(max=9))


@pytest.mark.parametrize(
    "name", sorted(p.stem for p in ZOO.glob("*.safetensors") if not p.stem.startswith("resnet14"))
)
def test_shipped_weights_do_as_well_as_their_card_says(name):
    card = read_card(name)
    variant = name.removeprefix(card["model"]["name"]).lstrip("_")
    component, options = parse("data", {**card["data"], "split": "test", "limit": 120})
    # a card names the options of the training; the net that is used has the answering head of its default, or
    # only that of pre-training
    head = {"head": "pretraining"} if card["model"].get("head") == "pretraining" else {}
    spec = {"name": card["model"]["name"], **head, "weights": f"zoo:{variant}" if variant else "zoo"}
    measured = score(load_model(spec), component.function(options))
    if "accuracy" in measured:
        low, high = wilson(round(measured["accuracy"] * measured["n"]), measured["n"])
        assert low <= card["test"]["accuracy"] <= high
    else:
        assert measured["low"] <= card["test"]["wer"] <= measured["high"] or measured["wer"] < 0.1
