"""The masking threshold beside the procedure of Qin et al. 2019, written out in loops on 16-bit integers,
frame by frame."""

import math

import numpy as np
import pytest
import torch

from limen.audio.synthesis import speak
from limen.perception.masking import Masking, masking_threshold, perturbation_psd

RATE_HZ = 16_000
HZ = np.linspace(0, RATE_HZ / 2, 1025)
BARK = 13 * np.arctan(0.00076 * HZ) + 3.5 * np.arctan((HZ / 7500) ** 2)


def hearing(hz):
    return (
        3.64 * (hz / 1000) ** -0.8
        - 6.5 * math.exp(-0.6 * (hz / 1000 - 3.3) ** 2)
        + 0.001 * (hz / 1000) ** 4
        - 12
    )


def power(x):
    """(T,) on the scale of 16-bit integers -> (frames, 1025)."""
    x = np.pad(x, (0, max(0, 2048 - len(x))))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(2048) / 2048)
    starts = range(0, len(x) - 2048 + 1, 512)
    return np.stack(
        [np.abs(math.sqrt(8 / 3) * np.fft.rfft(x[s : s + 2048] * window) / 2048) ** 2 for s in starts]
    )


def pruned(maskers):
    """[(bin, dB)] -> those that stay. The list is scanned once; entries are taken out of it on the way."""
    i = 0
    while i + 1 < len(maskers):
        while BARK[maskers[i + 1][0]] - BARK[maskers[i][0]] < 0.5:
            if maskers[i][1] < hearing(HZ[maskers[i][0]]):
                del maskers[i]
            if i + 1 == len(maskers):
                break
            del maskers[i if maskers[i][1] < maskers[i + 1][1] else i + 1]
            if i + 1 == len(maskers):
                break
        i += 1
    return maskers


def reference(x):
    """theta (frames, 1025) and psd_max of a clip in [-1, 1]."""
    p = power(np.asarray(x, np.float64) * 32768)
    decibels = 10 * np.log10(p + 1e-19)
    levels = 96 - decibels.max() + decibels
    theta = np.zeros_like(p)
    for frame, level in enumerate(levels):
        peaks = [k for k in range(1, 1024) if level[k] > level[k - 1] and level[k] > level[k + 1]]
        maskers = [(k, 10 * math.log10(sum(10 ** (level[j] / 10) for j in (k - 1, k, k + 1)))) for k in peaks]
        for m, loudness in pruned(maskers):
            for k in range(1025):
                dz = BARK[k] - BARK[m]
                slope = 27 if dz <= 0 else -27 + 0.37 * max(loudness - 40, 0)
                theta[frame, k] += 10 ** ((loudness - 6.025 - 0.275 * BARK[m] + slope * dz) / 10)
        for k in range(1025):
            if BARK[k] > 1:
                theta[frame, k] += 10 ** (hearing(HZ[k]) / 10)
    return theta, p.max() / 32768**2


def noise(n, level=0.1, seed=0):
    return (level * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def tone(n, hz, height):
    return (height * np.sin(2 * np.pi * hz * np.arange(n) / RATE_HZ)).clip(-1, 1).astype(np.float32)


def speech(n, text="seven zero", voice="en-us"):
    return (np.round(speak(text, voice)[:n] * 32768) / 32768).astype(np.float32)


CLIPS = {
    "speech": lambda: speech(6000),
    "another voice, very quiet": lambda: (
        speech(6000, "open the door", "en-gb-scotland+f3") * np.float32(0.003)
    ),
    "speech after digital silence": lambda: np.concatenate([np.zeros(3000, np.float32), speech(4000)]),
    "white noise": lambda: noise(4096),
    "a clipped tone": lambda: tone(4096, 440.3, 3.0) + noise(4096, 1e-5),
    "two tones half a bark apart, one nearly inaudible": lambda: (
        tone(4096, 1000, 0.5) + tone(4096, 1080, 1e-4) + noise(4096, 1e-6)
    ),
    "a clip shorter than a frame": lambda: speech(900),
    "one sample": lambda: np.array([0.5], np.float32),
}


def batched(clips):
    x = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(c) for c in clips], batch_first=True)
    return x, torch.tensor([len(c) for c in clips])


@pytest.mark.parametrize("name", [c for c in CLIPS if c != "one sample"])
def test_the_threshold_is_that_of_the_procedure(name):
    clip = CLIPS[name]()
    theta, psd_max = masking_threshold(torch.from_numpy(clip)[None], None, RATE_HZ)
    expected, largest = reference(clip)
    assert theta.shape == (1, *expected.shape)
    torch.testing.assert_close(theta[0], torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-30)
    assert psd_max.item() == pytest.approx(largest, rel=1e-5)


def test_the_scan_equals_taking_maskers_out_of_a_list():
    """Rows of noise have some 340 maskers; many rows go through every branch, ties and runs of inaudible ones
    too."""
    from limen.perception.masking import _maskers, bark, quiet_db

    draw = torch.Generator().manual_seed(0)
    levels = (
        torch.randn(300, 1025, generator=draw, dtype=torch.float64) * 12
        + torch.linspace(-40, 40, 300)[:, None]
    ).round()
    hz = torch.from_numpy(HZ)
    rows, bins, _ = _maskers(levels, bark(hz), quiet_db(hz))
    for i, level in enumerate(levels.numpy()):
        peaks = [k for k in range(1, 1024) if level[k] > level[k - 1] and level[k] > level[k + 1]]
        # the very numbers that are compared: equal levels must stay equal
        loudness = (
            10
            * (10 ** (torch.from_numpy(np.stack([level[[k - 1, k, k + 1]] for k in peaks])) / 10))
            .sum(1)
            .log10()
        )
        assert bins[rows == i].tolist() == [
            k for k, _ in pruned(list(zip(peaks, loudness.tolist(), strict=True)))
        ]


def test_a_batch_gives_what_its_members_give_alone_and_nothing_else():
    clips = [make() for make in CLIPS.values()] + [np.zeros(3000, np.float32)]
    x, lengths = batched(clips)
    loud = torch.where(
        torch.arange(x.shape[1]) < lengths[:, None], x, 0.9
    )  # what stands in the padding does not matter
    theta, psd_max = masking_threshold(loud, lengths, RATE_HZ)
    for i, clip in enumerate(clips):
        alone, largest = masking_threshold(torch.from_numpy(clip)[None], None, RATE_HZ)
        own = alone.shape[1]
        torch.testing.assert_close(theta[i, :own], alone[0], rtol=1e-6, atol=0)
        assert theta[i, own:].isinf().all()
        assert psd_max[i] == largest[0]


def test_silence_hides_nothing_beyond_the_threshold_of_hearing():
    theta, psd_max = masking_threshold(torch.zeros(1, 4096), None, RATE_HZ)
    expected = torch.tensor(
        [10 ** (hearing(hz) / 10) if z > 1 else 0.0 for hz, z in zip(HZ[1:], BARK[1:], strict=True)],
        dtype=torch.float32,
    )
    torch.testing.assert_close(
        theta[0], torch.cat([torch.zeros(1), expected]).expand(5, -1), rtol=1e-5, atol=0
    )
    assert torch.isfinite(perturbation_psd(torch.ones(1, 4096), psd_max)).all()


def test_the_clip_itself_stands_at_96_db_and_half_of_it_6_db_lower():
    x = torch.from_numpy(speech(6000))[None]
    _, psd_max = masking_threshold(x, None, RATE_HZ)
    assert 10 * perturbation_psd(x, psd_max).max().log10().item() == pytest.approx(96, abs=1e-3)
    assert 10 * perturbation_psd(x / 2, psd_max).max().log10().item() == pytest.approx(96 - 6.0206, abs=1e-3)


def test_the_power_of_a_change_has_the_gradient_that_differences_give_and_none_at_silence():
    x = torch.from_numpy(speech(3000)).double()[None]
    masking = Masking.of(x, None, RATE_HZ)
    delta = torch.from_numpy(noise(3000, 1e-3)).double()[None]
    assert torch.autograd.gradcheck(
        lambda part: masking.excess(torch.cat([delta[:, :-3], part], 1)),
        delta[:, -3:].clone().requires_grad_(),
    )
    still = torch.zeros_like(delta, requires_grad=True)
    (gradient,) = torch.autograd.grad(masking.excess(still).sum(), still)
    assert (gradient == 0).all()


def test_a_click_at_either_end_of_the_clip_is_measured():
    x = torch.from_numpy(speech(5000))[None]
    masking = Masking.of(x, None, RATE_HZ)
    clicks = torch.zeros(3, 5000)
    clicks[0, 0] = clicks[1, 2500] = clicks[2, -1] = 0.01
    energy = masking.rows(torch.zeros(3, dtype=torch.long)).psd(clicks).sum((1, 2))
    torch.testing.assert_close(
        energy, energy[1].expand(3), rtol=1e-3, atol=0
    )  # each stands in four frames whose squared windows sum alike


def test_shares_and_means_are_taken_over_each_clips_own_frames():
    clips = [speech(7000), speech(900), noise(3000)]
    x, lengths = batched(clips)
    delta = torch.nn.utils.rnn.pad_sequence(
        [torch.from_numpy(noise(len(c), 1e-3, seed=i)) for i, c in enumerate(clips)], batch_first=True
    )
    together = Masking.of(x, lengths, RATE_HZ)
    for i, clip in enumerate(clips):
        alone = Masking.of(torch.from_numpy(clip)[None], None, RATE_HZ)
        mine = delta[i : i + 1, : len(clip)]
        torch.testing.assert_close(together.excess(delta)[i], alone.excess(mine)[0], rtol=1e-5, atol=0)
        assert together.audible(delta)[i] == alone.audible(mine)[0]
        above = alone.psd(mine) > alone.theta
        assert alone.audible(mine)[0].item() == pytest.approx(above.float().mean().item(), rel=1e-5)


def test_quieter_changes_are_better_hidden():
    x = torch.from_numpy(speech(6000))[None]
    masking = Masking.of(x, None, RATE_HZ)
    delta = torch.from_numpy(noise(6000, 0.1))[None]
    shares = [masking.audible(delta * s).item() for s in (1.0, 0.1, 0.01, 0.001, 0.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.8
    assert shares[-1] == 0
    assert masking.excess(delta * 0).item() == 0
