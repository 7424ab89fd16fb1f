"""What holds for every axis, and what each does exactly."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.signal
import soundfile
import torch

from limen.audio.codecs import mu_law as mu_law_of
from limen.audio.files import write_clip
from limen.audio.rooms import measured_rt60_s
from limen.audio.synthesis import speak
from limen.core.components import names, parse
from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.degradations.noise import coloured
from limen.degradations.shared.impulse import after_direct
from limen.listening.stimuli import Stimuli
from limen.listening.study import Study
from limen.trials.base.screen import Effect, Screen, Sound, Stimulus

RATE_HZ = 16_000
STRENGTHS = [0.0, 25.0, 50.0, 75.0, 100.0]
EVERY = names("degradations")


@pytest.fixture(scope="module")
def clip():
    return (
        torch.from_numpy(speak("the river runs into the sea", rate_hz=RATE_HZ))[: 2 * RATE_HZ].double() * 0.5
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory, clip):
    place = tmp_path_factory.mktemp("axes")
    rng = np.random.default_rng(0)
    soundfile.write(place / "street.wav", 0.1 * rng.standard_normal(6000), RATE_HZ)
    write_clip(place / "clean.wav", clip, RATE_HZ)
    write_clip(
        place / "perturbed.wav", clip + 0.02 * torch.from_numpy(rng.standard_normal(len(clip))), RATE_HZ
    )
    decay = rng.standard_normal(RATE_HZ) * 10 ** (-3 * np.arange(RATE_HZ) / RATE_HZ / 0.4)
    decay[:400] = 0
    response = 0.05 * decay
    response[200] = 0.9  # the direct sound, 12.5 ms after the file begins
    soundfile.write(place / "hall.wav", response, RATE_HZ, subtype="FLOAT")
    return place


def applied(name, x, strength, folder=None, seed=3, rate_hz=RATE_HZ, **options):
    files = (
        {"recorded": {"file": "street.wav"}, "adversarial": {"file": "perturbed.wav"}}.get(name, {})
        if folder
        else {}
    )
    component, parsed = parse(
        "degradations", {"name": name, **{k: str(folder / v) for k, v in files.items()}, **options}
    )
    return component.function(x, strength, rate_hz, parsed, seed)


def spectrum(x):
    window = torch.hann_window(512, dtype=torch.float64)
    return (torch.stft(x, 512, 128, window=window, return_complex=True).abs() + 1e-2).log()


def impulse(seconds=3.0):
    x = torch.zeros(round(seconds * RATE_HZ), dtype=torch.float64)
    x[0] = 1
    return x


def energy_db(x):
    return float(10 * x.square().sum().log10())


# ---- every axis


@pytest.mark.parametrize("name", EVERY)
def test_strength_0_changes_nothing_at_all(name, clip, folder):
    assert torch.equal(applied(name, clip, 0.0, folder), clip)


@pytest.mark.parametrize("name", EVERY)
def test_length_and_type_stay_samples_are_finite_and_the_seed_decides_all_chance(name, clip, folder):
    before = clip.clone()
    for x in (clip, clip.float(), clip[:100]):
        for strength in (0.5, 50.0, 100.0):
            y = applied(name, x, strength, folder)
            assert y.shape == x.shape
            assert y.dtype == x.dtype
            assert bool(torch.isfinite(y).all())
            assert torch.equal(y, applied(name, x, strength, folder))
    assert torch.equal(clip, before)


@pytest.mark.parametrize("name", EVERY)
def test_the_difference_grows_with_strength(name, clip, folder):
    same_power = lambda y: y if name == "gain" else y * (clip.square().mean() / y.square().mean()).sqrt()
    distances = [
        float((spectrum(same_power(applied(name, clip, s, folder))) - spectrum(clip)).abs().mean())
        for s in STRENGTHS
    ]
    assert distances[0] == 0
    assert all(b > 1.01 * a for a, b in pairwise(distances)), distances
    assert distances[-1] > 0.3


@pytest.mark.parametrize("name", EVERY)
def test_silence_and_full_scale_survive(name, folder):
    silence = applied(name, torch.zeros(4000, dtype=torch.float64), 80.0, folder)
    assert bool(torch.isfinite(silence).all())
    square = torch.ones(4000, dtype=torch.float64) * torch.arange(4000).div(
        40, rounding_mode="floor"
    ).remainder(2).mul(2).sub(1)
    assert bool(torch.isfinite(applied(name, square, 80.0, folder)).all())


@pytest.mark.parametrize("name", EVERY)
def test_a_stimulus_of_any_axis_lies_within_full_scale_and_keeps_its_power(name, folder, tmp_path):
    axis = {
        "name": name,
        **{"recorded": {"file": "street.wav"}, "adversarial": {"file": "perturbed.wav"}}.get(name, {}),
    }
    study = parse_options(Study, {"name": "x", "steps": ["consent"]}, "test")
    sounds = (Sound("A", Stimulus("clean.wav")), Sound("B", Stimulus("clean.wav", (Effect(axis, 100.0),))))
    plain, changed = Stimuli(study, folder, tmp_path).sounds(Screen("x", "trial", sounds=sounds), 1)
    x, y = (np.frombuffer(w[44:], "<i2") / 32768 for w in (plain, changed))
    assert np.abs(y).max() < 1
    expected = -12.0 if name == "gain" else 0.0
    assert 10 * math.log10((y**2).mean() / (x**2).mean()) == pytest.approx(expected, abs=0.02)


# ---- noises


@pytest.mark.parametrize("colour", ["white", "pink", "brown", "blue", "violet"])
@pytest.mark.parametrize(("strength", "snr_db"), [(10.0, 54.0), (50.0, 30.0), (100.0, 0.0)])
def test_noise_lies_exactly_as_far_below_the_clip_as_its_strength_says(clip, colour, strength, snr_db):
    added = applied("noise", clip, strength, colour=colour) - clip
    assert energy_db(clip) - energy_db(added) == pytest.approx(snr_db, abs=1e-6)


@pytest.mark.parametrize(
    ("colour", "exponent"), [("white", 0), ("pink", -1), ("brown", -2), ("blue", 1), ("violet", 2)]
)
@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_noise_has_the_slope_of_its_colour(colour, exponent, rate_hz):
    f, power = scipy.signal.welch(coloured(15 * rate_hz, rate_hz, colour, 0).numpy(), rate_hz, nperseg=8192)
    inside = (f > 100) & (f < 0.45 * rate_hz)
    slope = np.polyfit(np.log10(f[inside]), np.log10(power[inside]), 1)[0]
    assert slope == pytest.approx(exponent, abs=0.03)


def test_recorded_noise_is_the_file_from_somewhere_on_at_its_level(clip, folder):
    added = applied("recorded", clip, 50.0, folder) - clip
    assert energy_db(clip) - energy_db(added) == pytest.approx(30.0, abs=1e-6)
    street, _ = soundfile.read(folder / "street.wav")
    # circular correlation with the loop finds its start: one place where it is the file, scaled
    loop = added[: len(street)].numpy()
    best = np.fft.irfft(np.fft.rfft(loop) * np.conj(np.fft.rfft(street)), n=len(street)).max()
    assert best / (np.linalg.norm(loop) * np.linalg.norm(street)) > 0.999
    assert not torch.equal(applied("recorded", clip, 50.0, folder, seed=4) - clip, added)


# ---- rooms


@pytest.mark.parametrize("file", ["", "hall.wav"])
@pytest.mark.parametrize(("strength", "drr_db"), [(20.0, 38.0), (50.0, 20.0), (100.0, -10.0)])
def test_the_direct_to_reverberant_ratio_is_as_asked_for(folder, file, strength, drr_db):
    h = applied("drr", impulse(), strength, file=str(folder / file) if file else "")
    assert float(h[0]) == pytest.approx(1.0, abs=1e-9)
    assert energy_db(h[:1]) - energy_db(h[1:]) == pytest.approx(drr_db, abs=0.01)


@pytest.mark.parametrize("file", ["", "hall.wav"])
@pytest.mark.parametrize("strength", [10.0, 25.0, 50.0, 100.0])
def test_the_reverberation_time_is_as_asked_for(folder, file, strength):
    h = applied("rt60", impulse(), strength, file=str(folder / file) if file else "")
    tail = h[1:]
    assert float(measured_rt60_s(tail[None], RATE_HZ)) == pytest.approx(2.0 * strength / 100, rel=0.06)


def test_stretching_a_response_in_time_keeps_its_pitch_and_makes_its_energy_grow_with_its_length(folder):
    energies, centres = [], []
    for strength in (25.0, 50.0, 100.0):
        tail = applied("rt60", impulse(), strength, file=str(folder / "hall.wav"))[1:].numpy()
        energies.append((tail**2).sum())
        f, power = scipy.signal.welch(tail[:8000], RATE_HZ)
        centres.append((f * power).sum() / power.sum())
    assert energies[1] / energies[0] == pytest.approx(2, rel=0.01)
    assert energies[2] / energies[1] == pytest.approx(2, rel=0.01)
    assert max(centres) / min(centres) < 1.1


def test_the_room_that_is_used_without_a_file_has_half_a_second_of_reverberation():
    assert after_direct("", RATE_HZ)[1] == pytest.approx(0.5, rel=0.05)


def test_a_response_without_a_room_in_it_is_refused(tmp_path):
    soundfile.write(tmp_path / "dry.wav", np.eye(1, 800)[0], RATE_HZ)
    with pytest.raises(UserError, match="has no sound after the direct sound"):
        applied("drr", impulse(), 50.0, file=str(tmp_path / "dry.wav"))
    soundfile.write(tmp_path / "echo.wav", np.eye(1, 8000)[0] + 0.5 * np.eye(1, 8000, 4000)[0], RATE_HZ)
    with pytest.raises(UserError, match="does not decay like a room"):
        applied("rt60", impulse(), 50.0, file=str(tmp_path / "echo.wav"))


def test_a_simulated_room_keeps_the_direct_sound_and_decays_as_long_as_asked_for():
    for strength, seconds in ((33.3, 0.5), (100.0, 1.5)):
        h = applied("room", impulse(), strength)
        assert float(h[0]) == pytest.approx(1.0, abs=0.15)
        assert float(measured_rt60_s(h[None, 800:], RATE_HZ)) == pytest.approx(seconds, rel=0.15)
    assert energy_db(applied("room", impulse(), 0.1)[1:]) < -40


# ---- coders, filters, level


@pytest.mark.parametrize(("strength", "bits"), [(0.1, 16), (50.0, 9), (57.2, 8), (100.0, 2)])
def test_mu_law_has_the_nearest_whole_number_of_bits(clip, strength, bits):
    assert torch.equal(applied("mu_law", clip, strength), mu_law_of(clip, bits))


def test_mu_law_of_a_clip_beyond_full_scale_is_not_clipped(clip):
    loud = 4 * clip / clip.abs().max()
    assert torch.allclose(applied("mu_law", loud, 50.0), 4 * applied("mu_law", loud / 4, 50.0))


@pytest.mark.parametrize("rate_hz", [8000, 10_000, 16_000, 44_100, 48_000])
def test_mp3_stays_aligned_at_any_rate(rate_hz):
    t = torch.arange(rate_hz, dtype=torch.float64) / rate_hz
    x = 0.3 * torch.sin(2 * math.pi * (300 + 400 * t) * t)
    y = applied("mp3", x, 1.0, rate_hz=rate_hz)
    middle = slice(rate_hz // 10, -rate_hz // 10)
    assert energy_db(x[middle]) - energy_db((x - y)[middle]) > 20


def test_equaliser_changes_its_band_by_exactly_its_gain_and_nothing_else():
    t = torch.arange(2 * RATE_HZ, dtype=torch.float64) / RATE_HZ
    middle = slice(RATE_HZ // 2, -RATE_HZ // 2)
    for hz, expected_db in ((200, 0.0), (2000, 7.5), (6500, 0.0)):
        x = 0.1 * torch.sin(2 * math.pi * hz * t)
        y = applied("eq", x, 50.0)
        assert energy_db(y[middle]) - energy_db(x[middle]) == pytest.approx(expected_db, abs=0.02)
        cut = applied("eq", x, 50.0, largest_db=-15.0)
        assert energy_db(cut[middle]) - energy_db(x[middle]) == pytest.approx(-expected_db, abs=0.02)
    assert torch.equal(applied("eq", x, 50.0, low_hz=9000, high_hz=12_000), x)
    with pytest.raises(UserError, match="must be below"):
        applied("eq", x, 50.0, low_hz=3000, high_hz=2000)


def test_the_low_pass_of_full_strength_is_the_anchor_of_mushra():
    t = torch.arange(2 * RATE_HZ, dtype=torch.float64) / RATE_HZ
    middle = slice(RATE_HZ // 2, -RATE_HZ // 2)
    for hz, stays in ((3000, True), (4000, False), (6000, False)):
        x = 0.1 * torch.sin(2 * math.pi * hz * t)
        change = energy_db(applied("low_pass", x, 100.0)[middle]) - energy_db(x[middle])
        assert change == pytest.approx(0, abs=0.05) if stays else change < -60
    assert torch.equal(applied("low_pass", x, 100.0, cutoff_hz=9000), x)


def test_gain_is_even_in_decibels(clip):
    for strength, db in ((25.0, -3.0), (100.0, -12.0)):
        assert energy_db(applied("gain", clip, strength)) - energy_db(clip) == pytest.approx(db, abs=1e-6)
    assert energy_db(applied("gain", clip, 50.0, largest_db=6.0)) - energy_db(clip) == pytest.approx(
        3.0, abs=1e-6
    )


# ---- adversarial


def test_the_full_perturbation_is_the_perturbed_file_and_half_of_it_is_half_way(clip, folder):
    clean, perturbed = (
        torch.from_numpy(soundfile.read(folder / f"{n}.wav")[0]) for n in ("clean", "perturbed")
    )
    assert torch.allclose(applied("adversarial", clean, 100.0, folder), perturbed, atol=1e-9)
    assert torch.allclose(applied("adversarial", clean, 50.0, folder), (clean + perturbed) / 2, atol=1e-9)
    assert torch.allclose(
        applied("adversarial", clean, 50.0, folder, largest=4.0), clean + 2 * (perturbed - clean), atol=1e-9
    )


def test_a_degraded_reference_gets_the_same_perturbation_as_the_clean_one(clip, folder):
    clean, perturbed = (
        torch.from_numpy(soundfile.read(folder / f"{n}.wav")[0]) for n in ("clean", "perturbed")
    )
    degraded = applied("noise", clean, 40.0)
    y = applied("adversarial", degraded, 100.0, folder, clean_file=str(folder / "clean.wav"))
    assert torch.allclose(y - degraded, perturbed - clean, atol=1e-9)
    longer = torch.cat([clean, torch.zeros(500, dtype=torch.float64)])
    assert torch.allclose(applied("adversarial", longer, 100.0, folder)[: len(clean)], perturbed, atol=1e-9)
