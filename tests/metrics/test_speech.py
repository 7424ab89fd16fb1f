"""PESQ and STOI: their scales, rates and the clips they cannot judge."""

import math

import numpy as np
import pesq
import pystoi
import pytest
import torch

from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, measure


def voice(seconds, rate_hz, seed=0):
    t = torch.arange(int(seconds * rate_hz), dtype=torch.float64) / rate_hz
    tones = sum(torch.sin(2 * math.pi * 120 * k * t) / k for k in range(1, 25))
    return 0.2 * tones * torch.sin(2 * math.pi * 1.7 * t).clamp_min(0) + 0.001 * noise(len(t), seed)


def noise(n, seed=1):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def row(x, x_adv, rate_hz, *metrics):
    batch = Batch("clip", ["a"], x[None], torch.zeros(1, dtype=torch.long), torch.tensor([len(x)]))
    (only,) = measure(
        Samples(batch, x_adv[None], rate_hz), applicable(metrics, "clip", None, with_model=False)
    )
    return only


@pytest.mark.parametrize(("rate_hz", "best"), [(16000, 4.644), (8000, 4.549), (44100, 4.644), (11025, 4.549)])
def test_an_identical_clip_gets_the_best_scores(rate_hz, best):
    x = voice(2, rate_hz)
    r = row(x, x, rate_hz, "pesq", "stoi")
    assert r["pesq"] == pytest.approx(best, abs=2e-3)
    assert r["stoi"] == pytest.approx(1, abs=1e-6)


def test_scores_are_those_of_the_reference_programs():
    x = voice(2, 16000)
    x_adv = x + 0.01 * noise(len(x))
    r = row(x, x_adv, 16000, "pesq", "stoi")
    assert r["pesq"] == pytest.approx(pesq.pesq(16000, x.numpy(), x_adv.numpy(), "wb"))
    assert r["stoi"] == pytest.approx(pystoi.stoi(x.numpy(), x_adv.numpy(), 16000))
    extended = row(x, x_adv, 16000, {"name": "stoi", "extended": True})
    assert extended["stoi"] == pytest.approx(pystoi.stoi(x.numpy(), x_adv.numpy(), 16000, extended=True))


def test_more_noise_sounds_worse():
    x = voice(2, 16000)
    scores = [row(x, x + amount * noise(len(x)), 16000, "pesq", "stoi") for amount in (0.001, 0.01, 0.1)]
    assert scores[0]["pesq"] > scores[1]["pesq"] > scores[2]["pesq"]
    assert scores[0]["stoi"] > scores[1]["stoi"] > scores[2]["stoi"]


def test_the_band_can_be_chosen_and_a_rate_too_low_for_it_is_said():
    x = voice(1, 8000)
    assert "needs 16000 Hz" in row(x, x, 8000, {"name": "pesq", "band": "wide"})["missing"]["pesq"]
    x = voice(1, 16000)
    assert row(x, x, 16000, {"name": "pesq", "band": "narrow"})["pesq"] == pytest.approx(4.549, abs=2e-3)


def test_a_clip_too_short_to_judge_is_null_with_the_reason():
    x = voice(0.2, 16000)
    assert row(x, x, 16000, "pesq", "stoi")["missing"].keys() == {"pesq", "stoi"}
    x = voice(0.35, 16000)
    r = row(x, x, 16000, "pesq", "stoi")
    assert r["pesq"] is not None
    assert "30 frames" in r["missing"]["stoi"]


def test_a_clip_with_a_moment_of_sound_in_silence_has_too_few_frames_for_stoi():
    x = torch.zeros(16000, dtype=torch.float64)
    x[8000:9600] = voice(0.1, 16000)
    assert "30 frames" in row(x, x, 16000, "stoi")["missing"]["stoi"]


def test_a_long_recording_with_many_pauses_is_scored_in_pieces():
    """The ITU's program overruns its table of 50 utterances; 45 s of words half a second apart would end the
    process."""
    x = noise(45 * 16000) * 0.1 * (torch.arange(45 * 16000) % 8000 < 4000)
    x_adv = x + 0.003 * noise(len(x), 2)
    pieces = [
        pesq.pesq(16000, a, b, "wb")
        for a, b in zip(np.array_split(x.numpy(), 3), np.array_split(x_adv.numpy(), 3), strict=True)
    ]
    assert row(x, x_adv, 16000, "pesq")["pesq"] == pytest.approx(float(np.mean(pieces)))
