"""Sounds of a screen differ in nothing but what is heard; nothing outside the study's folder is ever
played."""

import hashlib
import io
import math
import os
import struct

import numpy as np
import pytest
import soundfile
import torch

from limen.audio.files import write_clip
from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.listening.calibration_tones import generated_sound
from limen.listening.stimuli import Stimuli, digest, inside
from limen.listening.study import Study
from limen.trials.base.screen import Effect, Screen, Sound, Stimulus


def voice(seconds=0.7, rate_hz=16_000, level=0.1, hz=220.0):
    t = torch.arange(round(seconds * rate_hz)) / rate_hz
    return level * torch.sin(2 * math.pi * hz * t) * torch.hann_window(len(t), periodic=False)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "study"
    place.mkdir()
    write_clip(place / "a.wav", voice(), 16_000)
    write_clip(place / "b.wav", voice(0.5, level=0.3, hz=330), 16_000)
    write_clip(place / "fast.wav", voice(0.5, 44_100), 44_100)
    return place


def stimuli(folder, power_dbfs=-26.0, dither=False):
    study = parse_options(
        Study, {"name": "x", "steps": ["consent"], "power_dbfs": power_dbfs, "dither": dither}, "test"
    )
    return Stimuli(study, folder, folder.parent / "cache")


def screen(*recipes):
    made_of = [r if isinstance(r, Stimulus) else Stimulus(r) for r in recipes]
    return Screen("abx", "trial", sounds=tuple(Sound(str(k), s) for k, s in enumerate(made_of)))


def noisy(file, strength=50.0, **options):
    return Stimulus(file, (Effect({"name": "noise", **options}, strength),))


def samples(wav):
    x, rate_hz = soundfile.read(io.BytesIO(wav), always_2d=True)
    return x, rate_hz


def power_db(x):
    return 10 * math.log10((x**2).mean())


def test_sounds_of_a_screen_have_the_same_header_length_and_rate(folder):
    wavs = stimuli(folder).sounds(screen("a.wav", "b.wav", "fast.wav", "a.wav"), 0)
    assert len({len(w) for w in wavs}) == 1
    assert len({w[:44] for w in wavs}) == 1
    x, rate_hz = samples(wavs[0])
    assert (rate_hz, x.shape) == (44_100, (30_870, 1))
    assert wavs[0] != wavs[1]


def test_a_clip_that_comes_again_has_other_bytes_though_nobody_hears_it(folder):
    ask = screen("a.wav", "b.wav", "a.wav")
    first, _, again = (samples(w)[0] for w in stimuli(folder, dither=True).sounds(ask, 0))
    apart = (first - again) * 32768
    assert np.abs(apart).max() == 2
    assert power_db(first - again) < -85
    exact = stimuli(folder).sounds(ask, 0)
    assert exact[0] == exact[2]
    # the noise itself does not tell either: each of the two moved by as much from the exact clip
    for moved in (first, again):
        assert sorted(set(((moved - samples(exact[0])[0]) * 32768).round().ravel())) == [-1, 0, 1]


def test_the_file_is_a_plain_16_bit_wav_with_44_bytes_of_header(folder):
    (wav,) = stimuli(folder).sounds(screen("a.wav"), 0)
    riff, size, wave = struct.unpack("<4sI4s", wav[:12])
    assert (riff, size, wave) == (b"RIFF", len(wav) - 8, b"WAVE")
    assert struct.unpack("<HHIIHH", wav[20:36]) == (1, 1, 16_000, 32_000, 2, 16)
    assert struct.unpack("<4sI", wav[36:44]) == (b"data", len(wav) - 44)
    assert digest(wav) == hashlib.sha256(wav[44:]).hexdigest()
    assert soundfile.info(io.BytesIO(wav)).subtype == "PCM_16"


def test_every_sound_has_exactly_the_power_of_the_study_whatever_was_done_to_it(folder):
    recipes = ["a.wav", "b.wav", noisy("b.wav", 100.0), noisy("a.wav", 30.0, colour="brown")]
    for recipe, seconds in zip(recipes, [0.7, 0.5, 0.5, 0.7], strict=True):
        # beside the longest clip, so that shorter ones are padded: the power is that of the sound without the
        # silence
        wav = stimuli(folder).sounds(screen(recipe, "a.wav"), 3)[0]
        x, rate_hz = samples(wav)
        assert power_db(x[: round(seconds * rate_hz)]) == pytest.approx(-26.0, abs=0.01)


def test_clips_keep_their_loudness_if_the_study_says_so(folder):
    (wav,) = stimuli(folder, None).sounds(screen("a.wav"), 0)
    stored, _ = soundfile.read(folder / "a.wav", always_2d=True)
    np.testing.assert_array_equal(samples(wav)[0], stored)


def test_a_peak_that_would_clip_turns_all_sounds_of_the_screen_down_alike(folder):
    click = torch.zeros(8000)
    click[4000] = 1.0
    write_clip(folder / "click.wav", click, 16_000)
    with_click, alone = (
        stimuli(folder).sounds(screen(*names), 0)[0] for names in (("a.wav", "click.wav"), ("a.wav",))
    )
    loud = stimuli(folder).sounds(screen("a.wav", "click.wav"), 0)[1]
    assert np.abs(samples(loud)[0]).max() == 32767 / 32768
    lower = power_db(samples(with_click)[0]) - power_db(samples(alone)[0])
    # the click has its power in one sample of 8000
    assert lower == pytest.approx(26.0 - 10 * math.log10(8000), abs=0.02)


def test_gain_is_heard_although_all_sounds_have_the_same_power(folder):
    softer = Stimulus("a.wav", (Effect({"name": "gain", "largest_db": -12.0}, 50.0),))
    plain, soft = stimuli(folder).sounds(screen("a.wav", softer), 0)
    assert power_db(samples(soft)[0]) - power_db(samples(plain)[0]) == pytest.approx(-6.0, abs=0.01)


def test_abrupt_ends_are_faded_in_all_sounds_of_the_screen_and_smooth_ones_left_alone(folder):
    t = torch.arange(8000) / 16_000
    write_clip(folder / "abrupt.wav", 0.1 * torch.cos(2 * math.pi * 200 * t), 16_000)
    faded, beside = (samples(w)[0][:, 0] for w in stimuli(folder).sounds(screen("abrupt.wav", "b.wav"), 0))
    assert faded[0] == 0
    assert abs(faded[1:80]).max() < abs(faded[400:800]).max()
    (alone,) = (samples(w)[0][:, 0] for w in stimuli(folder).sounds(screen("b.wav"), 0))
    assert not np.array_equal(alone, beside)
    np.testing.assert_allclose(
        alone[400:7000] / beside[400:7000].std(), beside[400:7000] / beside[400:7000].std(), rtol=0, atol=2e-3
    )


def test_the_same_noise_is_heard_at_every_strength_and_another_seed_gives_another(folder):
    make = stimuli(folder, None)
    clean, weak, strong = (
        samples(make.sounds(screen(r), 7)[0])[0][:, 0]
        for r in ("a.wav", noisy("a.wav", 60.0), noisy("a.wav", 80.0))
    )
    inner = slice(400, -400)  # away from the fades
    one, two = (weak - clean)[inner], (strong - clean)[inner]
    assert np.corrcoef(one, two)[0, 1] > 0.999
    # 60 dB over 100 steps: 20 steps are 12 dB
    assert 20 * math.log10(two.std() / one.std()) == pytest.approx(12.0, abs=0.05)
    other = samples(make.sounds(screen(noisy("a.wav", 80.0)), 8)[0])[0][:, 0] - clean
    assert abs(np.corrcoef(other[inner], two)[0, 1]) < 0.1


def test_what_the_reference_went_through_is_the_same_in_the_test(folder):
    before = Effect({"name": "noise"}, 60.0)
    low = Effect({"name": "gain", "largest_db": -6.0}, 100.0)
    reference, test = stimuli(folder).sounds(
        screen(Stimulus("a.wav", (before,)), Stimulus("a.wav", (before, low))), 0
    )
    x, y = samples(reference)[0], samples(test)[0]
    assert np.abs(y - x * 10 ** (-6 / 20)).max() < 1.1 / 32768


def test_sounds_come_from_the_cache_until_a_file_changes(folder):
    cache = folder.parent / "cache"
    ask = screen("a.wav", noisy("b.wav"))
    first = stimuli(folder).sounds(ask, 0)
    kept = {p: p.stat().st_mtime_ns for p in cache.iterdir()}
    assert len(kept) == 2
    assert stimuli(folder).sounds(ask, 0) == first
    assert stimuli(folder).sounds(screen(noisy("b.wav"), "a.wav", "a.wav"), 0) == [
        first[1],
        first[0],
        first[0],
    ]
    assert {p: p.stat().st_mtime_ns for p in cache.iterdir()} == kept
    # what is played is what the cache holds
    path = next(p for p in cache.iterdir() if p.read_bytes() == first[0])
    path.write_bytes(first[0][:44] + bytes(len(first[0]) - 44))
    assert stimuli(folder).sounds(ask, 0)[0] != first[0]
    write_clip(folder / "a.wav", voice(hz=500), 16_000)
    os.utime(folder / "a.wav", ns=(1, 1))
    changed = stimuli(folder).sounds(ask, 0)
    assert changed[0] not in (first[0], path.read_bytes())
    assert not [p for p in cache.iterdir() if p.suffix != ".wav"]


def test_without_randomness_the_seed_makes_no_second_copy(folder):
    assert stimuli(folder).sounds(screen("a.wav"), 0) == stimuli(folder).sounds(screen("a.wav"), 1)
    assert len(list((folder.parent / "cache").iterdir())) == 1


@pytest.mark.parametrize(
    "name",
    [
        "../secret.wav",
        "/etc/passwd",
        "link.wav",
        "out/secret.wav",
        "a.wav\0",
        "",
        ".",
        "missing.wav",
        "x" * 5000,
        "loop",
    ],
)
def test_nothing_outside_the_folder_of_the_study_is_read(folder, name):
    write_clip(folder.parent / "secret.wav", voice(), 16_000)
    (folder / "link.wav").symlink_to(folder.parent / "secret.wav")
    (folder / "out").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(UserError, match="there is no such file in the folder of the study"):
        inside(folder, name)
    with pytest.raises(UserError):
        stimuli(folder).sounds(screen(name), 0)
    with pytest.raises(UserError):
        stimuli(folder).sounds(
            screen(Stimulus("a.wav", (Effect({"name": "recorded", "file": name}, 50.0),))), 0
        )


def test_links_within_the_folder_and_the_absolute_path_of_a_file_in_it_are_fine(folder):
    (folder / "again.wav").symlink_to(folder / "a.wav")
    assert stimuli(folder).sounds(screen("again.wav"), 0) == stimuli(folder).sounds(screen("a.wav"), 0)
    assert inside(folder, str(folder / "a.wav")) == (folder / "a.wav").resolve()


def hostile(folder):
    rate = 16_000
    soundfile.write(folder / "nan.wav", np.full(800, np.nan), rate, subtype="FLOAT")
    soundfile.write(folder / "huge.wav", np.full(800, 1e6), rate, subtype="FLOAT")
    soundfile.write(folder / "long.flac", np.zeros(121 * rate), rate)
    soundfile.write(folder / "none.wav", np.zeros(0), rate)
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("not audio at all")
    (folder / "cut.wav").write_bytes((folder / "a.wav").read_bytes()[:-100])


@pytest.mark.parametrize(
    "name", ["nan.wav", "huge.wav", "long.flac", "none.wav", "empty.wav", "text.wav", "cut.wav"]
)
def test_hostile_audio_is_a_user_error_that_names_the_file(folder, name):
    hostile(folder)
    for recipe in (name, Stimulus("a.wav", (Effect({"name": "recorded", "file": name}, 50.0),))):
        with pytest.raises(UserError, match=name):
            stimuli(folder).sounds(screen(recipe), 0)
    assert not (folder.parent / "cache").exists()


def test_silence_and_the_shortest_of_clips_are_played(folder):
    write_clip(folder / "silence.wav", torch.zeros(1600), 16_000)
    write_clip(folder / "one.wav", torch.ones(1) * 0.5, 16_000)
    silence, one = stimuli(folder).sounds(screen("silence.wav", "one.wav"), 0)
    assert not samples(silence)[0].any()
    assert len(one) == len(silence)


def test_strengths_must_be_set_and_lie_between_0_and_100(folder):
    for strength in (None, -1.0, 101.0):
        with pytest.raises(UserError, match="must be between 0 and 100"):
            stimuli(folder).sounds(screen(noisy("a.wav", strength)), 0)


# ---- sounds that we make


def test_the_headphone_tones_cancel_on_loudspeakers_where_they_are_in_opposite_phase(folder):
    wavs = stimuli(folder).sounds(screen("limen:tone:normal", "limen:tone:quiet", "limen:tone:antiphase"), 0)
    assert len({w[:44] for w in wavs}) == 1
    normal, quiet, antiphase = (samples(w)[0] for w in wavs)
    assert normal.shape == (48_000, 2)
    np.testing.assert_array_equal(normal[:, 0], normal[:, 1])
    np.testing.assert_array_equal(antiphase[:, 0], -antiphase[:, 1])
    assert not antiphase.sum(1).any()
    assert power_db(quiet) - power_db(normal) == pytest.approx(-6.0, abs=0.01)
    assert power_db(antiphase) == pytest.approx(power_db(normal), abs=0.001)
    spectrum = np.abs(np.fft.rfft(normal[:, 0]))
    assert spectrum.argmax() == 200  # one second: bins are hertz


def test_the_loud_sound_has_the_power_of_the_study_and_the_soft_one_is_24_db_below(folder):
    loud, soft = (samples(w)[0] for w in stimuli(folder, -30.0).sounds(screen("limen:loud", "limen:soft"), 0))
    assert power_db(loud) == pytest.approx(-30.0, abs=0.01)
    assert power_db(soft) - power_db(loud) == pytest.approx(-24.0, abs=0.05)
    assert np.abs(loud).max() < 1


def test_an_unknown_made_sound_is_refused():
    for name in ("limen:", "limen:tone:", "limen:tone:loud", "limen:../../etc"):
        with pytest.raises(UserError, match="There is no generated sound"):
            generated_sound(name, -26.0)
