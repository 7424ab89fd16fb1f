"""What happens when a clip, a rate or a target is wrong: a clear error or a defined result, for every
recogniser and before any loss."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

import limen
from limen.attacks.engine.run import Attack
from limen.core.components import names, parse
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.data.base.dataset import Dataset
from limen.experiments import cell_factory
from limen.models.base.load import load_model

RECOGNISERS = [
    {"name": "ctc_small"},
    {"name": "deepspeech2"},
    {"name": "lstm_seq2seq"},
    {"name": "lstm_seq2seq", "head": "ctc"},
    {"name": "transformer_seq2seq"},
    {"name": "transformer_seq2seq", "head": "ctc"},
    {"name": "wav2vec2_small"},
]
ATTACKS = [
    {"name": "pgd", "steps": 3, "budget": {"name": "snr", "snr_db": 30}},
    {"name": "pgd", "steps": 3, "budget": {"name": "linf", "eps": 0.01}},
    {"name": "kenansville", "budget": {"name": "snr", "snr_db": 20}},
    {"name": "yeehaw", "budget": {"name": "snr", "snr_db": 20}},
    {"name": "genetic", "generations": 2, "population": 4, "budget": {"name": "linf", "eps": 0.01}},
    {"name": "cw", "steps": 3},
    {"name": "imperceptible", "steps": 3, "masking_steps": 3},
    {"name": "square", "queries": 4, "budget": {"name": "linf", "eps": 0.01}},
    {"name": "nes", "queries": 8, "directions": 2, "budget": {"name": "linf", "eps": 0.01}},
    {"name": "spsa", "queries": 8, "directions": 2, "budget": {"name": "linf", "eps": 0.01}},
]


@pytest.fixture(scope="module", params=RECOGNISERS, ids=lambda spec: "-".join(map(str, spec.values())))
def recogniser(request):
    return load_model(request.param)


@pytest.fixture(scope="module")
def small():
    return load_model("ctc_small")


def clips(*lengths: int, level: float = 0.1) -> Batch:
    rows = [
        torch.randn(n, generator=torch.Generator().manual_seed(n)).mul(level).clamp(-1, 1) for n in lengths
    ]
    x = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return Batch("clip", [f"c{n}" for n in lengths], x, ["one"] * len(lengths), torch.tensor(lengths))


def test_an_empty_clip_is_refused_by_name(recogniser):
    batch = Batch("clip", ["good", "nothing"], torch.zeros(2, 800), ["one", "two"], torch.tensor([800, 0]))
    with pytest.raises(UserError, match="empty: nothing"):
        Attack.parse(ATTACKS[0])(recogniser, batch)
    with pytest.raises(UserError, match="empty: number 1"):
        recogniser.transcribe(batch.x, batch.lengths)


@pytest.mark.parametrize("n", [1, 2, 399, 401])
def test_a_clip_shorter_than_a_window_gets_a_text_and_a_finite_loss(recogniser, n):
    batch = clips(n)
    assert isinstance(recogniser.transcribe(batch.x, batch.lengths)[0], str)
    loss = recogniser.losses(batch.x.requires_grad_(), ["a"], batch.lengths)
    (gradient,) = torch.autograd.grad(loss.sum(), batch.x)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(gradient).all()


def test_silence_gets_a_text_and_a_finite_gradient(recogniser):
    x = torch.zeros(1, 8000, requires_grad=True)
    assert isinstance(recogniser.transcribe(x)[0], str)
    (gradient,) = torch.autograd.grad(recogniser.losses(x, ["one"]).sum(), x)
    assert torch.isfinite(gradient).all()


def test_a_text_with_unknown_characters_is_refused_and_the_characters_are_named(recogniser):
    with pytest.raises(UserError, match="cannot output: '!' '7'"):
        recogniser.losses(clips(8000).x, ["seven 7!"])


def test_stereo_and_nan_are_refused(recogniser):
    with pytest.raises(UserError, match=r"average the channels.*got \(1, 2, 800\)"):
        recogniser.transcribe(torch.zeros(1, 2, 800))
    broken = clips(800)
    broken.x[0, 5] = torch.nan
    with pytest.raises(UserError, match="NaN or infinity: c800"):
        Attack.parse(ATTACKS[0])(recogniser, broken)


def test_a_target_longer_than_the_frames_allow_is_refused_with_both_numbers(small):
    with pytest.raises(UserError, match=r"needs \d+ frames, but the clip has only \d+"):
        Attack.parse({**ATTACKS[0], "goal": {"name": "transcript", "text": "one two three four five six"}})(
            small, clips(3200)
        )


def test_a_clip_too_short_for_its_own_transcript_is_named(recogniser):
    """The truth is what an untargeted attack moves away from; in whichever thread and row the clip is met,
    the message has its id."""
    batch = replace(clips(8000, 1), y=["one", "one"])
    with pytest.raises(
        UserError, match=r"^c1: the text 'one' .* but the clip has only 1 (frames )?of \d+ ms"
    ):
        Attack.parse(ATTACKS[0])(recogniser, batch)


@pytest.mark.parametrize(
    "spec", ATTACKS, ids=lambda spec: spec["name"] + spec.get("budget", {}).get("name", "")
)
def test_attacks_leave_silence_and_single_samples_defined(small, spec):
    x = torch.zeros(3, 6000)
    x[1, 0] = 0.5
    x[2] = clips(6000).x[0]
    batch = Batch(
        "clip", ["silent", "one sample", "noise"], x, ["one", "a", "one"], torch.tensor([6000, 1, 6000])
    )
    result = Attack.parse(spec)(small, batch, store="int16")
    assert torch.isfinite(result.x_adv).all()
    assert bool((result.x_adv[1, 1:] == 0).all())  # padding
    if spec.get("budget", {}).get("name") == "snr":
        assert bool((result.x_adv[0] == 0).all())  # no signal, no allowance
    rows = limen.measure(batch, result)
    assert rows[0]["snr_db"] is None
    assert "silent" in rows[0]["missing"]["snr_db"] or "nothing was changed" in rows[0]["missing"]["snr_db"]


def test_a_file_in_stereo_at_another_rate_is_mixed_and_resampled(tmp_path, small):
    t = np.arange(8000) / 8000
    both = np.stack([0.2 * np.sin(2 * np.pi * 440 * t), np.zeros(8000)], 1)
    soundfile.write(tmp_path / "a.wav", both, 8000)
    (tmp_path / "a.txt").write_text("one")
    component, options = parse("data", {"name": "transcripts", "path": str(tmp_path)})
    sample = component.function(options)[0]
    assert sample.x.shape == (16000,)
    assert float(sample.x[4000:12000].abs().max()) == pytest.approx(0.1, rel=0.02)


def test_data_of_another_rate_that_cannot_be_changed_is_refused(monkeypatch, small, tmp_path):
    slow = SimpleNamespace(
        function=lambda options: Dataset(
            "slow", "clip", [0], lambda key: None, rate_hz=8000, truth="transcript"
        )
    )
    monkeypatch.setattr(cell_factory, "parse", lambda kind, spec: (slow, None))
    with pytest.raises(UserError, match="16000 Hz, but the data slow gives 8000 Hz"):
        cell_factory.CellFactory(torch.device("cpu"), 8, tmp_path).data({"name": "slow"}, small)


def test_every_attack_that_takes_clips_is_tried_on_bad_ones():
    # classifiers only, pictures only, or crafted first: those have their own tests
    elsewhere = {
        "deepfool",
        "uap",
        "uap_hc",
        "patch",
        "universal",
        "imported",
        "fgsm",
        "r_fgsm",
        "bim",
        "mi_fgsm",
        "cw_l2",
        "random_noise",
        "apgd",
        "ni_fgsm",
        "auto_attack",
        "cascade",
        "ddn",
        "fab",
        "fmn",
        "boundary",
        "hopskipjump",
        "zoo",
        "one_pixel",
        "spatial",
        "hot_cold",
        "wasserstein",
        "cw_linf",
        "cw_l0",
        "ead",
        "lbfgs",
        "alma",
        "jsma",
        "sigma_zero",
    }
    assert set(names("attacks")) - elsewhere == {spec["name"] for spec in ATTACKS}
