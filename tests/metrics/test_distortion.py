"""Distances between clean and adversarial samples, by closed forms."""

import math

import pytest
import torch

from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, measure

RATE_HZ = 16000


def rows(x, x_adv, *metrics, kind="clip", y=None, classes=None, lengths=None, rate_hz=RATE_HZ):
    n = len(x)
    lengths = torch.full((n,), x.shape[-1]) if lengths is None and kind == "clip" else lengths
    y = torch.zeros(n, dtype=torch.long) if y is None else y
    batch = Batch(kind, [str(i) for i in range(n)], x, y, lengths)
    return measure(
        Samples(batch, x_adv, rate_hz if kind == "clip" else None, classes),
        applicable(metrics, kind, None, with_model=False),
    )


def row(x, x_adv, *metrics, **more):
    (only,) = rows(x[None], x_adv[None], *metrics, **more)
    return only


def sine(hz, amplitude=1.0, seconds=1.0):
    return amplitude * torch.sin(
        2 * math.pi * hz * torch.arange(int(seconds * RATE_HZ), dtype=torch.float64) / RATE_HZ
    )


def test_norms_of_a_known_change():
    x = torch.zeros(1, 2, 2, dtype=torch.float64)
    delta = torch.tensor([[[0.3, -0.4], [0.0, 0.0]]], dtype=torch.float64)
    r = row(x, x + delta, "l0", "l1", "l2", "linf", kind="picture")
    assert (r["l0"], r["l1"], r["l2"], r["linf"]) == pytest.approx((2, 0.7, 0.5, 0.4))


def test_dissimilarity_is_the_norm_of_the_change_over_that_of_the_sample():
    x = torch.tensor([0.3, -0.4, 0.0, 0.0], dtype=torch.float64)
    r = row(x, x + torch.tensor([0.0, 0.0, 0.1, 0.0]), "dissimilarity")
    assert (r["dissimilarity_l2"], r["dissimilarity_linf"]) == pytest.approx((0.2, 0.25))


@pytest.mark.parametrize(
    ("amplitude", "expected"), [(0.05, 20.0), (0.5, 0.0), (0.005, 40.0), (0.25, 20 * math.log10(2))]
)
def test_snr_of_two_sines_is_the_ratio_of_their_powers(amplitude, expected):
    assert row(sine(440, 0.5), sine(440, 0.5) + sine(1000, amplitude), "snr_db")["snr_db"] == pytest.approx(
        expected, abs=1e-9
    )


def test_an_unchanged_clip_has_no_snr_and_no_relative_level():
    x = sine(440, 0.5)
    r = row(x, x, "snr_db", "peak_db", "mean_db")
    assert all(
        r[c] is None and "nothing was changed" in r["missing"][c]
        for c in ("snr_db", "peak_db", "peak_db_vocal", "mean_db_background")
    )


def test_a_sine_is_minus_3_db_in_power_but_its_peak_is_its_amplitude():
    r = row(
        sine(503, 0.8), sine(503, 0.8) + 0.08 * torch.sign(sine(70) + 1e-9), "peak_db", "mean_db", "snr_db"
    )
    assert r["peak_db"] == pytest.approx(-20, abs=0.01)
    assert r["snr_db"] == pytest.approx(20 - 10 * math.log10(2), abs=1e-6)
    assert r["mean_db"] == pytest.approx(20 * math.log10(0.08 / (0.8 * 2 / math.pi)), abs=0.01)


def speech_between_noise(seed=0):
    g = torch.Generator().manual_seed(seed)
    x = 0.002 * torch.randn(4000, generator=g, dtype=torch.float64)
    x[1500:2600] += 0.4 * torch.randn(1100, generator=g, dtype=torch.float64).clamp(-2, 2)
    return x, 0.01 * torch.randn(4000, generator=g, dtype=torch.float64)


def test_a_change_ten_times_as_large_is_20_db_louder_in_every_part():
    x, delta = speech_between_noise()
    small, large = (row(x, x + k * delta, "peak_db", "mean_db") for k in (1, 10))
    for column in (
        "peak_db",
        "peak_db_vocal",
        "peak_db_background",
        "mean_db",
        "mean_db_vocal",
        "mean_db_background",
    ):
        assert large[column] - small[column] == pytest.approx(20, abs=1e-6)


def test_parts_are_those_found_by_trying_every_stretch():
    x, delta = speech_between_noise(1)
    x, delta = x[1300:1700], delta[1300:1700]
    energy = x.square()
    best = min(
        (b - a, a, b)
        for a in range(len(x))
        for b in range(a + 1, len(x) + 1)
        if energy[a:b].sum() >= 0.95 * energy.sum()
    )
    _, a, b = best
    outside = torch.ones(len(x), dtype=torch.bool)
    outside[a:b] = False
    r = row(x, x + delta, "peak_db", "mean_db")

    def db(part, level):
        return 20 * math.log10(level(delta[part].abs()) / level(x[part].abs()))

    assert r["peak_db_vocal"] == pytest.approx(db(slice(a, b), torch.max))
    assert r["peak_db_background"] == pytest.approx(db(outside, torch.max))
    assert r["mean_db_vocal"] == pytest.approx(db(slice(a, b), torch.mean))
    assert r["mean_db_background"] == pytest.approx(db(outside, torch.mean))


def test_the_same_noise_is_far_louder_on_the_background_than_on_the_voice():
    x, delta = speech_between_noise()
    r = row(x, x + delta, "mean_db")
    assert r["mean_db_background"] - r["mean_db_vocal"] > 25


def test_the_class_silence_has_no_vocal_part_but_a_background():
    x, delta = speech_between_noise()
    both = rows(
        torch.stack([x, x]),
        torch.stack([x, x]) + delta,
        "peak_db",
        y=torch.tensor([0, 1]),
        classes=["silence", "yes"],
    )
    assert both[0]["peak_db_vocal"] is None
    assert "silence" in both[0]["missing"]["peak_db_vocal"]
    assert both[0]["peak_db"] == both[1]["peak_db"]
    assert both[1]["peak_db_vocal"] is not None


def test_a_clip_that_is_all_voice_has_no_background():
    x = torch.ones(1, dtype=torch.float64)
    assert row(x, 0.9 * x, "peak_db")["missing"] == {"peak_db_background": "the clip has no background"}


@pytest.mark.parametrize(("amplitude", "level"), [(100, 0), (1000, 1), (20000, 2)])
def test_loudness_is_the_mean_magnitude_on_the_16_bit_scale(amplitude, level):
    x = torch.full((800,), amplitude / 32768, dtype=torch.float64)
    r = row(x, x, "loudness")
    assert r["loudness_db"] == pytest.approx(20 * math.log10(amplitude))
    assert r["loudness_level"] == level
